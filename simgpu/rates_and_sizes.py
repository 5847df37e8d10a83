"""Sizes, rates, numbers and times as people write them: ``40GB``, ``25 GB/s``, ``15T``, ``9us``."""

import re

_SIZES = {"": 2**30, "M": 2**20, "G": 2**30, "T": 2**40}
_PREFIXES = {"M": 1e6, "G": 1e9, "T": 1e12}
_COUNTS = {"": 1, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_SHORT = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
_SECONDS = {"h": 3600, "d": 86400, "w": 7 * 86400}


def memory_size(text) -> int:
    """Return the bytes of a GPU's memory, which its makers count in powers of two.

    Raises
    ------
    ValueError
        If the text is no size.

    Examples
    --------
    >>> memory_size("40GB") == memory_size("40 GiB") == memory_size("40") == 40 * 2**30
    True
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([MGT])i?B?)?", text.strip(), re.IGNORECASE)
    if not found or not float(found[1]):
        raise ValueError(f"{text!r} is not a size of memory; write it like 40GB")
    return int(float(found[1]) * _SIZES[(found[2] or "").upper()])


def rate(text) -> float:
    """Return the bytes/s of a rate; a small b, or ``bit``, stands for bits.

    Raises
    ------
    ValueError
        If the text is no rate.

    Examples
    --------
    >>> rate("25GB/s") == rate("200 Gbit/s") == rate("200Gb/s") == rate("200Gbps") == 25e9
    True
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([MGTmgt])(B|b|bit)(?:/s|ps)", text.strip())
    if not found or not float(found[1]):
        raise ValueError(f"{text!r} is no rate; write it like 25GB/s or 200Gbit/s")
    bits = 1 if found[3] == "B" else 8
    return float(found[1]) * _PREFIXES[found[2].upper()] / bits


def count(text) -> float:
    """Return the number that a text stands for: thousands, millions, billions or trillions.

    Raises
    ------
    ValueError
        If it is no number above 0.

    Examples
    --------
    >>> count("15T") == count("15,000B") == count(1.5e13) == 15e12
    True
    """
    plain = str(text).replace(",", "").strip()
    found = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\+?\d+)?)\s*([KMBT]?)", plain, re.IGNORECASE)
    if not found or not float(found[1]):
        raise ValueError(f"{text!r} is no number; write it like 15T, 300B or 1e12")
    return float(found[1]) * _COUNTS[found[2].upper()]


def duration(text) -> float:
    """Return the seconds of a text in hours, days or weeks.

    Raises
    ------
    ValueError
        If it is no time above 0.

    Examples
    --------
    >>> duration("2w") == duration("14d") == duration("336 h")
    True
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([hdw])", str(text).strip())
    if not found or not float(found[1]):
        raise ValueError(f"{text!r} is no time; write it like 12h, 30d or 6w")
    return float(found[1]) * _SECONDS[found[2]]


def short_time(text) -> float:
    """Return the seconds of a text in seconds or parts of one.

    Raises
    ------
    ValueError
        If it is no time.

    Examples
    --------
    >>> round(1e6 * short_time("0.8ms")), short_time("2 s")
    (800, 2.0)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|ms|us|µs)", str(text).strip())
    if not found:
        raise ValueError(f"{text!r} is no time; write it like 0.8ms or 31us")
    return float(found[1]) * _SHORT[found[2]]

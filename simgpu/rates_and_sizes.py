"""Rates and sizes as people write them: ``40GB``, ``400Gbit/s``, ``25 GB/s``."""

import re

_SIZES = {"": 2**30, "M": 2**20, "G": 2**30, "T": 2**40}
_PREFIXES = {"M": 1e6, "G": 1e9, "T": 1e12}


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

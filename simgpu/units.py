"""How this book formats quantities, and the colours of its figures."""

import math

# Okabe and Ito's palette, which colour-blind readers can tell apart.
BLUE, SKY, GREEN, YELLOW = "#0072B2", "#56B4E9", "#009E73", "#F0E442"
ORANGE, VERMILION, PURPLE = "#E69F00", "#D55E00", "#CC79A7"
# Greys: text, secondary text, fills, rules.
INK, MUTED, GREY, PALE, RULE = "#1B1F24", "#57606A", "#999999", "#CCCCCC", "#D0D7DE"
WHITE = "#FFFFFF"

_PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
_LARGEST = {"s": 0, "B": 15, "FLOP": 15, "B/s": 15, "FLOP/s": 15}  # power of ten; others take none


def number(value):
    """Format a number with three significant digits.

    Examples
    --------
    >>> number(0.12345), number(999.7), number(1234567)
    ('0.123', '1,000', '1,230,000')
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:.3g}"


def scale(value, unit):
    """Choose the power of ten for a value; return it and the unit with its prefix.

    Examples
    --------
    >>> scale(0.0000215, "s"), scale(0.5, "images/s")
    ((-6, 'µs'), (0, 'images/s'))
    """
    if value == 0 or unit not in _LARGEST:
        return 0, unit
    largest = _LARGEST[unit]
    power = min(max(3 * math.floor(math.log10(abs(value)) / 3), -9), largest)
    if float(f"{value / 10**power:.3g}") >= 1000 and power < largest:  # 999.9 reads "1 k"
        power += 3
    return power, _PREFIXES[power] + unit


def quantity(value, unit):
    """Format a value with three significant digits and its unit, with a prefix if it takes one.

    Examples
    --------
    >>> quantity(12.8e9, "FLOP/s"), quantity(0.0000215, "s"), quantity(1234.5, "images/s")
    ('12.8 GFLOP/s', '21.5 µs', '1,230 images/s')
    """
    power, name = scale(value, unit)
    return f"{number(value / 10**power)} {name}"


def dollars(amount):
    """Format an amount of money with three significant digits.

    Examples
    --------
    >>> dollars(0.01234), dollars(2), dollars(1234567)
    ('$0.0123', '$2', '$1,230,000')
    """
    return f"${number(amount)}"


def days(seconds):
    """Format a time in days, below two in hours.

    Examples
    --------
    >>> days(5400), days(10 * 86400)
    ('1.5 hours', '10 days')
    """
    if seconds < 2 * 86400:
        return f"{number(seconds / 3600)} hours"
    return f"{number(seconds / 86400)} days"


def billions(count):
    """Format a large number in words.

    Examples
    --------
    >>> billions(8.03e9), billions(15e12), billions(524288)
    ('8.03 billion', '15 trillion', '524,000')
    """
    for power, word in ((12, "trillion"), (9, "billion"), (6, "million")):
        if count >= 10**power:
            return f"{number(count / 10**power)} {word}"
    return number(count)


def percent(share):
    """Format a share in percent, with one digit behind the point.

    Examples
    --------
    >>> percent(0.3456), percent(0.0004), percent(0)
    ('34.6 %', 'below 0.1 %', '0.0 %')
    """
    return "below 0.1 %" if 0 < share < 0.001 else f"{100 * share:.1f} %"


def time_unit(seconds):
    """Choose the unit of a time axis of that length; return it and how many make a second.

    Examples
    --------
    >>> time_unit(0.03)
    ('ms', 1000)
    """
    power, name = scale(max(seconds, 1e-6), "s")
    return name, 10**-power


def size(num_bytes):
    """Format a number of bytes with a binary prefix.

    Examples
    --------
    >>> size(4096), size(16 * 2**20)
    ('4 KiB', '16 MiB')
    """
    for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if num_bytes >= 2**power:
            return f"{number(num_bytes / 2**power)} {name}"
    return f"{number(num_bytes)} B"

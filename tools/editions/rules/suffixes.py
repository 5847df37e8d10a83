"""Turkish suffixes at glued numbers: they follow the number as it is read aloud.

A translator writes a suffix as it stands after *iki*, such as ``{glue:text}`share`'sini``; the
copy of the edition gives it the buffer and the vowels that the number on the page asks for.
"""

# ruff: noqa: RUF001, RUF002, SIM905

import re

ROLE = re.compile(r"(\{glue:\w*\}`([^`]+)`)['’](\w+)")
AFTER_TWO = frozenset(
    "yi ye nin de den yle dir lik si sini sine sinin sinde sinden siyle sidir".split()
)
DIGITS = "sıfır bir iki üç dört beş altı yedi sekiz dokuz".split()
TENS = "- on yirmi otuz kırk elli altmış yetmiş seksen doksan".split()
LARGE = {2: "yüz", 3: "bin", 6: "milyon", 9: "milyar"}
UNIT = re.compile(r"(?:[kMGTP]?B|[mµn]?s|[kMGTP]?(?:B|FLOP)/s)")  # ge-be, saniye: all end in e
VALUE = re.compile(r"%?([\d.]+)(?:,(\d+))?(?: ?([^\W\d][\w/]*))?")
CLOSE = dict(zip("aıoueiöü", "ııuuiiüü", strict=True))


def spoken(value):
    """Return the last word of a number as it is read aloud.

    Parameters
    ----------
    value : str
        as a Turkish page shows it: "%24", "1.024", "0,05", "2,8 GB", "13 milyon"

    Raises
    ------
    ValueError
        If a word or a sign stands behind the number that nobody can hang a suffix on.
    """
    match = VALUE.fullmatch(value)
    if not match or (match[3] and not (UNIT.fullmatch(match[3]) or match[3] in LARGE.values())):
        raise ValueError(f"no suffix can hang on {value!r}, put a noun there")
    if match[3]:
        return match[3] if match[3] in LARGE.values() else "saniye"
    digits = (match[2] or match[1].replace(".", "")).lstrip("0") or "0"
    zeros = len(digits) - len(digits.rstrip("0"))
    if digits == "0" or not zeros:
        return DIGITS[int(digits[-1])]
    if zeros == 1:
        return TENS[int(digits[-2])]
    return LARGE[max(power for power in LARGE if power <= zeros)]


def harmonised(value, suffix):
    """Return a suffix, given as after *iki*, in the form that it has after a number.

    Examples
    --------
    >>> harmonised("%24", "sini"), harmonised("%6", "sinde"), harmonised("40", "de")
    ('ünü', 'sında', 'ta')
    """
    if suffix not in AFTER_TWO:
        raise ValueError(f"{suffix!r} is no suffix as after iki: {', '.join(sorted(AFTER_TWO))}")
    word = spoken(value)
    vowel = [letter for letter in word if letter in CLOSE][-1]
    if word[-1] not in CLOSE and (suffix[0] in "ys" or suffix == "nin"):
        suffix = suffix[1:]
    elif word[-1] in "fstkçşhp" and suffix[0] == "d":
        suffix = "t" + suffix[1:]
    letters = []
    for letter in suffix:
        if letter in "ei":
            letter = vowel = CLOSE[vowel] if letter == "i" else "a" if vowel in "aıou" else "e"
        letters.append(letter)
    return "".join(letters)


def put(text, value_of):
    """Return a text whose suffixes at glued numbers are harmonised.

    Parameters
    ----------
    text : str
        a translated block
    value_of : callable
        takes what a role names, returns what the page shows there
    """
    return ROLE.sub(lambda role: f"{role[1]}'{harmonised(value_of(role[2]), role[3])}", text)

"""Whether a translated block has the numbers, and the names with digits, of the English.

Prose in Turkish has a decimal comma and points between thousands. A number in words may become
one in digits, and the other way round for small ones; "60 million" may become 6000万.
"""

# ruff: noqa: RUF001, SIM905

import re
from collections import Counter
from decimal import Decimal, InvalidOperation

NUMBER = re.compile(r"(?<![A-Za-z_\d])(?<![A-Za-z_]-)\d+(?:[.,]\d+)*")
NAME = re.compile(r"(?<![\w-])[A-Z][A-Za-z]*-?\d+(?:\.\d+)*[A-Za-z]?(?![\w.]*\w)")
NAME_BESIDE_HAN = re.compile(
    r"(?<![A-Za-z\d_-])[A-Z][A-Za-z]*-?\d+(?:\.\d+)*[A-Za-z]?(?![A-Za-z\d])"
)
VERSION = re.compile(
    r"(?:[A-Z][\w-]*[A-Z]\w*|torch|Python|Apache|Llama|Qwen|Ubuntu|Sphinx|Triton|Chromium"
    r"|[Vv]ersion|[Rr]elease)(?: version)?[ ]v?(\d+(?:\.\d+)+)|(?<![\d.,])(\d+\.\d+\.\d+(?:\.\d+)*)"
)
SOFTWARE = re.compile(r"\b(?:PyTorch|Python|CUDA|NCCL|Triton|Transformers|Megatron|DeepSpeed)\b")
RANGE = re.compile(r"(\d+)(?: to | through |–|-)(\d+)")
MONTHS = (
    "January February March April May June July August September October November December".split()
)
MONTH = re.compile(rf"\b({'|'.join(MONTHS)}) \d{{4}}\b")
LARGE_WORDS = frozenset(
    "twenty thirty forty fifty sixty seventy eighty ninety hundred hundreds thousand thousands "
    "million millions billion billions trillion dozen dozens half order".split()
)
IN_WORDS = {
    Decimal(number): frozenset(names.split())
    for number, names in enumerate(
        (
            "zero no none nothing",
            "a an one once single first alone only each per every unit",
            "two twice double doubles doubled second both halve halves halved pair pairs either",
            "three third thirds thrice triple",
            "four fourth quarter quarters",
            "five fifth fifths",
            "six sixth",
            "seven seventh",
            "eight eighth eighths",
            "nine ninth",
            "ten tenth tenths tenfold",
            "eleven eleventh",
            "twelve twelfth",
            "thirteen",
            "fourteen",
            "fifteen quarter",
            "sixteen sixteenth",
        )
    )
}
LARGE = {
    "en": {"thousand": 3, "million": 6, "billion": 9, "trillion": 12},
    "tr": {"bin": 3, "milyon": 6, "milyar": 9, "trilyon": 12},
    "ko": {"천만": 7, "백만": 6, "만": 4, "천": 3, "억": 8, "조": 12},
    "zh": {
        "万亿": 12,
        "千万": 7,
        "百万": 6,
        "千亿": 11,
        "百亿": 10,
        "十亿": 9,
        "亿": 8,
        "万": 4,
        "千": 3,
    },
}
SCALE = {code: re.compile(r"\s*-?(" + "|".join(large) + ")") for code, large in LARGE.items()}
GROUPED = {comma: re.compile(rf"\d{{1,3}}(?:\{comma}\d{{3}})+(?:[.,]\d+)?") for comma in ",."}
SPELLED = {
    code: {Decimal(i): re.compile(before + f"(?:{form})") for i, form in enumerate(forms.split())}
    for code, before, forms in (
        ("tr", r"\b", "sıfır bir iki üç dört beş altı yedi sekiz dokuz on"),
        ("ko", r"\b", "영 한|하나|첫 두|둘 세|셋 네|넷 다섯 여섯 일곱 여덟 아홉 열"),
        ("zh", "", "零 一 二|两|双 三 四 五 六 七 八 九 十"),
    )
}


def values(language, text):
    """Return the numbers of a text as tuples: as written, the value, the value with "million"."""
    point, comma = (",", ".") if language == "tr" else (".", ",")
    found = []
    for match in NUMBER.finditer(text):
        pieces = [match[0]]
        if GROUPED[comma].fullmatch(match[0]):
            pieces = [match[0].replace(comma, "")]
        elif comma == ",":  # a list without spaces
            pieces = match[0].split(comma)
        for piece in pieces:
            try:
                value = large = Decimal(piece.replace(point, "."))
            except InvalidOperation:  # a version, 1.2.3
                value = large = piece
            if isinstance(value, Decimal) and (scale := SCALE[language].match(text, match.end())):
                large = value.scaleb(LARGE[language][scale[1]])
            found.append((match[0], value, large))
    return found


def without_pairs(here, there, position):
    """Return what stays of two lists of numbers once equal ones have found each other."""
    left = Counter(number[position] for number in there)
    kept = []
    for number in here:
        if left[number[position]]:
            left[number[position]] -= 1
        else:
            kept.append(number)
    others = []
    for number in there:
        if left[number[position]]:
            left[number[position]] -= 1
            others.append(number)
    return kept, others


def differing(language, english, translated, in_code=False):
    """Yield what is wrong with numbers: a kind of problem, and the text.

    Parameters
    ----------
    language : str
        "tr", "ko" or "zh"
    english, translated : str
        the prose of both blocks
    in_code : bool, optional
        whether the block may be a comment: beside Turkish code, numbers may look as in code
    """
    if not re.search(r"\d", english + translated):
        return
    for match in VERSION.finditer(english):
        version = match[1] or match[2]
        if version in translated:
            english = english.replace(version, "", 1)
            translated = translated.replace(version, "", 1)
    here, there = values("en", english), values(language, translated)
    if language == "tr":
        if in_code or SOFTWARE.search(english):
            here, there = without_pairs(here, there, 0)
        for written, _, _ in there:
            if re.fullmatch(r"\d+\.(?:\d{1,2}|\d{4,})", written):
                yield "error", f"numbers: a decimal point in {written}"
    for position in (2, 1):
        here, there = without_pairs(here, there, position)
    for written, value, _ in here:
        form = SPELLED[language].get(value)
        if not (form and form.search(translated.lower())):
            yield "error", f"numbers: missing {written}"
    if not there:
        return
    months = {Decimal(MONTHS.index(name) + 1) for name in MONTH.findall(english)}
    said = set(re.findall(r"[a-z]+", english.lower()))
    ranges = [(int(first), int(last)) for first, last in RANGE.findall(english)]
    for written, value, large in there:
        between = isinstance(large, Decimal) and any(a < large < b for a, b in ranges)
        spelled = said & (LARGE_WORDS | IN_WORDS.get(value, LARGE_WORDS))
        if value != 1 and value not in months and not between and not spelled:
            yield "error", f"numbers: added {written}"


def names(english, translated):
    """Yield names with digits, as A100, that only one of two texts has."""
    here = set(NAME.findall(english))
    there = set(NAME_BESIDE_HAN.findall(translated))
    plural = {name.removesuffix("s") for name in here}
    for name in sorted({name.removesuffix("s") for name in here} - there):
        if name not in translated:
            yield f"name: missing {name}"
    for name in sorted(there - here - plural):
        if name not in english:
            yield f"name: added {name}"

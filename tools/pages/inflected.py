"""How a name of the glossary stands in a text: with what before it, and with which endings.

In Korean a particle follows a name, in Turkish endings do, behind an apostrophe where the name is
foreign. Chinese sets no spaces around it.
"""
# ruff: noqa: RUF001, RUF002

import re

LETTERS = r"\u3400-\u9fff\uac00-\ud7a3"  # Han and Hangul
PARTICLES = (
    "들|은|는|이|가|을|를|의|에|에서|에게|로|으로|와|과|도|만|까지|부터|마다|보다|"
    "처럼|만큼|뿐|이나|나|이란|란|이라|라|이고|고|이며|며|인|이다|다|입니다|이므로|이지만|이면"
)
ENDINGS = (
    "l[ae]r|s?[ıiuü]|y[ıiuü]|n?[ıiuü]n|n[ıiuü]|n?[dt][ae]n?|[yn]?[ae]|y?l[ae]|"
    "[ıiuü]?m[ıiuü]z|n[ıiuü]z|ki|[dt][ıiuü]r|[cç][ae]"
)
SOFTENED = {"k": "ğ", "p": "b", "ç": "c", "t": "d"}  # before a vowel: çekirdek, çekirdeği
ASCII = (r"(?<![A-Za-z0-9_.-])", r"(?![A-Za-z0-9_-])")
BORDERS = (r"(?<![\w.-])", r"(?![\w-])")
NAME = {  # what stands around a name, by language; in Korean and Chinese if it is no English one
    "ko": (BORDERS[0], rf"(?=(?:{PARTICLES}){{0,4}}{BORDERS[1]})"),
    "zh": ("", ""),
    "tr": (BORDERS[0], ""),
}
BEHIND = {"tr": rf"(?:['’]?(?:{ENDINGS}){{1,4}})?{BORDERS[1]}"}


def forms(name, language="en"):
    """Return the spellings of a name in a text: plural, first in a sentence, softened.

    Examples
    --------
    >>> sorted(forms("bucket")), forms("버킷", "ko")
    (['Bucket', 'Buckets', 'bucket', 'buckets'], {'버킷'})
    """
    if is_asian(name):  # one letter of Chinese is part of many words
        return {name} if len(name) > 1 or language != "zh" else set()
    found = {name}
    if name[0].islower():
        found |= {first + name[1:] for first in {name[0].upper(), capital(name[0], language)}}
    plural = {form + "s" for form in found if not form.endswith("s")}
    soft = {form[:-1] + SOFTENED[form[-1]] for form in found if form[-1] in SOFTENED}
    return found | plural | (soft if language == "tr" else set())


def capital(letter, language):
    """Return a letter as the first of a sentence."""
    return "İ" if language == "tr" and letter == "i" else letter.upper()


def is_asian(name):
    """Return whether a name has letters of Chinese or Korean."""
    return bool(re.search(f"[{LETTERS}]", name))


def pattern(spellings, language="en"):
    """Return what finds one of the spellings: it is the group ``name`` of a use.

    Examples
    --------
    >>> pattern({"gradyan"}, "tr").search("İki gradyanları")[0]
    'gradyanları'
    """
    if not spellings:
        return re.compile("(?!)")
    words = (word(form, language) for form in sorted(spellings, key=len, reverse=True))
    return re.compile(f"(?P<name>{'|'.join(words)}){BEHIND.get(language, '')}")


def word(form, language):
    """Return the pattern of a spelling with its borders."""
    before, behind = NAME.get(language, BORDERS)
    if language in ("ko", "zh"):
        before = before if is_asian(form[0]) else ASCII[0]
        behind = behind if is_asian(form[-1]) else ASCII[1]
    return f"{before}{re.escape(form)}{behind}"

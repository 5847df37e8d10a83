"""The terms of the editions, `editions/terms.csv`, and whether a block uses them.

Columns: the English, the word of each language, where it comes from, the languages in which its
first use on a page carries the English in parentheses, and further forms that count, between
`|`: other English spellings, and stems in each language. `*` stands for any word: the English is
an everyday word, too.
"""

# ruff: noqa: RUF001, RUF002

import csv
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PATH = Path(__file__).parents[3] / "editions" / "terms.csv"
LOWER = str.maketrans({"İ": "i", "I": "ı"})
IDIOMS = re.compile(  # everyday uses of words that are terms elsewhere
    r"\b(?:process(?:es)? (?=(?:the|an?|one|each|every|its?|some|all|two|what|more)\b)"
    r"|(?:they|we|you|to|can|must|ranks|GPUs) process"
    r"|error messages?|in sequence|no loss|for example|for instance|step by step|in the process"
    r"|network interface|event loop|host ?name)\b"
)
PARAGRAPH = re.compile(r"(?!#|:::|\||!\[|```|\$\$)(?s:.*)[.:?!]\W*$")
ASIDE = re.compile(r"[（(]([^（()）]+)[）)]")


@dataclass(frozen=True)
class Term:
    """A term and its forms in one language.

    Attributes
    ----------
    english : str
        as in the table, such as "kernel (of a GPU)"
    spellings : tuple of str
        how the English may be written
    word : str
        what to say
    stems : tuple of str
        what counts as that word, flattened by `flat`; empty where any word will do
    first_use : bool
        whether the first use on a page carries the English in parentheses
    """

    english: str
    spellings: tuple
    word: str
    stems: tuple
    first_use: bool


@dataclass(frozen=True)
class Terms:
    """The terms of one language.

    Attributes
    ----------
    of : dict
        from the flattened English to the `Term` objects it may stand for
    pattern : re.Pattern
        finds each English spelling, the longest first
    kept : frozenset of str
        the lower-case words of terms that stay English
    """

    of: dict
    pattern: re.Pattern
    kept: frozenset


def flat(language, text):
    """Return a text in lower case, without spaces, hyphens and the dots of the Turkish i."""
    if language == "tr":
        text = text.translate(LOWER).lower().replace("ı", "i")
    return re.sub(r"[\s_*‐‑–-]+", "", text.lower())


def plain(english):
    """Return an English term in lower case, with single spaces in place of hyphens."""
    return " ".join(re.sub(r"[-_\s]+", " ", english.lower()).split())


def stems(language, word, further):
    """Return the flattened stems that count as a word."""
    found = [form for form in further.split("|") if form] or [word]
    if language == "tr":
        found = [stem for form in {word, *found} for stem in turkish_stems(form)]
    return tuple(dict.fromkeys(flat(language, form) for form in [word, *found]))


def turkish_stems(word):
    """Return what stays of a Turkish word before its suffixes: kitap and kitab, hattı and hat."""
    yield word
    compound = " " in word
    if compound and re.search(r"[sğ][ıiuü]$", word):
        yield word[:-2]
    elif (compound and word[-1] in "ıiuü") or (len(word) > 4 and word[-1] in "kçpt"):
        yield word[:-1]
    elif len(word) > 6 and re.search(r"(?:lar|ler)$", word):
        yield word[:-3]
    elif len(word) > 5 and re.search(r"m[ae]$", word):
        yield word[:-2]


@cache
def read(language, path=PATH):
    """Return the terms of a language.

    Parameters
    ----------
    language : str
        "tr", "ko" or "zh"
    path : Path, optional

    Returns
    -------
    Terms
    """
    with open(path, encoding="utf-8", newline="") as lines:
        return table(language, csv.DictReader(lines))


def table(language, rows):
    """Return the terms of a language from rows of the table (dicts)."""
    of, kept = {}, set()
    for row in rows:
        name = re.sub(r"\s*\(.*?\)", "", row["en"])
        spellings = tuple(filter(None, [name, *row["forms_en"].split("|")]))
        further = row[f"forms_{language}"]
        any_word = further == "*"
        term = Term(
            row["en"],
            spellings,
            row[language],
            () if any_word else stems(language, row[language], further),
            language in row["first_use"].split(),
        )
        for spelling in spellings:
            of.setdefault(key(spelling), []).append(term)
        kept |= {part for part in re.findall(r"[a-z]+", row[language].lower())}
    names = sorted(
        {spelling for terms in of.values() for t in terms for spelling in t.spellings},
        key=len,
        reverse=True,
    )
    return Terms(
        of, re.compile(rf"(?<![\w.-])(?:{'|'.join(map(expression, names))})"), frozenset(kept)
    )


def key(spelling):
    """Return what identifies an English spelling: only the case of names such as DP counts."""
    return spelling if is_name(spelling) else plain(spelling)


def is_name(spelling):
    """Return whether a term is written with capitals or underscores, and stays as it is."""
    return bool(re.search(r"[A-Z_\d]", spelling)) and " " not in spelling


def expression(spelling):
    """Return a regular expression for a spelling or its plural, from the beginning of a word."""
    if is_name(spelling):
        return rf"{re.escape(spelling)}s?(?![\w-])"
    parts = [re.escape(part) for part in re.split(r"[-_\s]+", spelling)]
    parts[0] = re.sub(r"^[a-z]", lambda m: f"[{m[0]}{m[0].upper()}]", parts[0])
    words = r"[-\s]+".join(parts)
    words = words[:-1] + "(?:y|ies)" if words.endswith("y") else words + "(?:e?s)?"
    return rf"{words}(?!\w|-\w|\.\w)"


def used(english, terms):
    """Yield the terms that an English text uses, each with the words there.

    A longer term hides those inside of it: "tensor parallelism" is no "tensor".
    """
    seen = set()
    for match in terms.pattern.finditer(IDIOMS.sub(" ", english)):
        found = lookup(match[0], terms)
        if found and found[0].english not in seen:
            seen.add(found[0].english)
            yield found, match[0]


def lookup(text, terms):
    """Return the terms that a text found by the pattern may stand for."""
    for form in (text, text.removesuffix("s")):
        if form in terms.of:
            return terms.of[form]
    lower = plain(text)
    for form in (lower, lower.removesuffix("s"), lower.removesuffix("es"), lower[:-3] + "y"):
        if form in terms.of:
            return terms.of[form]
    return []


def missing(language, english, translated, terms):
    """Yield the terms of an English text whose words the translation does not have.

    Parameters
    ----------
    language : str
        "tr", "ko" or "zh"
    english, translated : str
        the prose of both blocks
    terms : Terms
    """
    target = None
    for found, said in used(english, terms):
        target = flat(language, translated) if target is None else target
        if any(not term.stems for term in found):
            continue
        if is_name(said) and said.removesuffix("s") in translated:
            continue
        if not any(stem in target for term in found for stem in term.stems):
            yield f"term: {said} is {found[0].word}"


def first_uses(language, pairs, terms):
    """Return the terms whose first use on a page lacks the English in parentheses.

    Parameters
    ----------
    language : str
        "tr", "ko" or "zh"
    pairs : iterable of (str, str)
        the paragraphs of a page, in order, in English and translated (empty where there is none)
    terms : Terms

    Returns
    -------
    list of str
        one sentence each
    """
    asides, waiting = set(), {}
    for english, translated in pairs:
        if not translated:
            continue
        here = {
            tight(part)
            for aside in ASIDE.findall(translated)
            for part in re.split(r"[,，、;；]", aside)
        }
        asides |= here
        if not PARAGRAPH.match(english):
            continue
        text = prose(english)
        for candidates, said in used(text, terms):
            term = candidates[0]
            if not term.first_use or is_name(said):
                continue
            written = {tight(spelling) for spelling in (*term.spellings, said)}
            written |= {spelling + "s" for spelling in written}
            if term.english not in waiting:
                target = flat(language, translated)
                told = any(aside.endswith(tuple(written)) for aside in asides)
                absent = not told and any(stem in target for stem in term.stems)
                waiting[term.english] = term if absent else None
            elif here & written and f"*{said}" in text:  # where the page defines it
                waiting[term.english] = None
    return [
        f"first use: {term.word} without ({term.spellings[0]})"
        for term in filter(None, waiting.values())
    ]


def tight(english):
    """Return an English term in lower case, without spaces and hyphens."""
    return plain(english).replace(" ", "")


def prose(block):
    """Return a block without roles, code, formulas and addresses."""
    return re.sub(r"\{[\w:+-]+\}`[^`]*`|`[^`]+`|\$[^$]+\$|(?<=\])\([^()\s]*\)", " ", block)

"""How the pages of an edition are searched: the languages that Sphinx's search lacks.

Korean and Chinese have no spaces where an index needs them: both are indexed by pairs of letters,
and a query is cut into the same pairs. Turkish has an `i` with a dot and one without, each with a
capital of its own, which neither Python nor a browser knows without being told: here all four are
one letter. What Python does to the index, the page that searches does to the query in JavaScript.
"""
# ruff: noqa: RUF001

import json
import re
from typing import ClassVar

from sphinx.search import SearchLanguage
from sphinx.search.en import SearchEnglish

from tools.pages import inflected

PAIRED = inflected.LETTERS  # Han and Hangul; `assets/search.js` has them as well
RUN = re.compile(rf"[{PAIRED}]+|[^\W{PAIRED}]+")
SPLIT_PAIRS = """
var splitQuery = (query) =>
  (query.match(/[PAIRED]+|(?:(?![PAIRED])[\\p{L}\\p{N}_])+/gu) || []).flatMap((run) =>
    /^[PAIRED]{3}/.test(run)
      ? Array.from({ length: run.length - 1 }, (_, i) => run.slice(i, i + 2))
      : [run]);
""".replace("PAIRED", PAIRED)
MOST_ENDINGS = 6
STEM = re.compile(f"(.{{3,}}?)(?:{inflected.ENDINGS}){{0,{MOST_ENDINGS}}}")
HARD = {soft: hard for hard, soft in inflected.SOFTENED.items()}
SPLIT_TURKISH = r"""
var splitQuery = (query) => query.replaceAll("İ", "i").match(/[\p{L}\p{N}_]+/gu) || [];
"""
STEM_TURKISH = f"""
var Stemmer = function () {{
  const hard = {json.dumps(HARD, ensure_ascii=False)};
  const stem = /^(.{{3,}}?)(?:{inflected.ENDINGS}){{0,{MOST_ENDINGS}}}$/u;
  this.stemWord = (word) => {{
    const one = word.replaceAll("ı", "i");
    return (one.match(stem)?.[1] ?? one).replace(/.$/u, (letter) => hard[letter] ?? letter);
  }};
}};
"""


def pieces(text):
    """Return what is searched for of a query: words, and pairs of letters of Han and Hangul.

    Examples
    --------
    >>> pieces("데이터 병렬화, 2 GPU당")
    ['데이', '이터', '병렬', '렬화', '2', 'GPU', '당']
    """
    found = []
    for run in RUN.findall(text):
        if is_paired(run) and len(run) > 2:
            found += [run[i : i + 2] for i in range(len(run) - 1)]
        else:
            found.append(run)
    return found


def is_paired(run):
    """Return whether a word is one of Han or Hangul."""
    return bool(re.match(f"[{PAIRED}]", run))


class Pairs(SearchEnglish):
    """Index of pairs of letters, and of English words as in the English book."""

    lang: ClassVar = "pairs"
    language_name: ClassVar = "pairs of letters"
    js_splitter_code: ClassVar = SPLIT_PAIRS

    def split(self, text):
        """Return what is indexed of a text: letters by themselves, too, since 桶 is a word."""
        return pieces(text) + [letter for letter in text if is_paired(letter)]


class Korean(Pairs):
    """Search in Korean."""

    lang: ClassVar = "ko"
    language_name: ClassVar = "Korean"


class Chinese(Pairs):
    """Search in Chinese."""

    lang: ClassVar = "zh"
    language_name: ClassVar = "Chinese"


class Turkish(SearchLanguage):
    """Search in Turkish, by the shortest stem behind which nothing but endings stand.

    Sphinx's own stemmer, Snowball's, makes *kov* of *kova* and *kova* of *kovalar*: the plural is
    not found by the singular.

    Examples
    --------
    >>> language = Turkish({})
    >>> [language.stem(word) for word in ("kova", "Kovalar", "çekirdek", "Çekirdeğin", "IŞIK")]
    ['kov', 'kov', 'çekirdek', 'çekirdek', 'işik']
    """

    lang: ClassVar = "tr"
    language_name: ClassVar = "Turkish"
    js_splitter_code: ClassVar = SPLIT_TURKISH
    js_stemmer_code: ClassVar = STEM_TURKISH

    def stem(self, word):
        """Return the stem of a word."""
        word = word.replace("İ", "i").lower().replace("ı", "i")
        found = STEM.fullmatch(word)
        stem = found[1] if found else word
        return stem[:-1] + HARD.get(stem[-1], stem[-1])


def setup(app):
    """Register with Sphinx."""
    for language in (Korean, Chinese, Turkish):
        app.add_search_language(language)

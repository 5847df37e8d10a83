"""The book's own editions: the form of their blocks, their copies, their pages."""
# ruff: noqa: RUF001

import html
import re
import shutil
import subprocess
import sys
from collections import Counter
from urllib.parse import unquote

import pytest
from support.page_faults import examine, faults, impediments_in_light_and_dark
from support.paths import ROOT

from tools import words
from tools.chromium.visits import served, visit_all
from tools.editions import checks, copy, pages, same, store
from tools.editions.blocks import digest
from tools.editions.languages import LANGUAGES

EVERY = pytest.mark.parametrize("language", LANGUAGES)
# On a page: where links lead, what can be linked to, and the numbers of figures and formulas.
LINK = re.compile(r'<a class="reference [^"]*" href="([^"]+)"')
PLACE = re.compile(r'<(?:section|figure|div class="math[^"]*"|span) id="([^"]+)"')
ARTICLE = re.compile(r"(?s)<article.*</article>")
NUMBER = re.compile(r'class="std std-numref">\D*([\d.]+)')
NO_TEXT = re.compile(r"(?s)<(script|style|pre|code|svg|math)\b.*?</\1>|<[^>]*>")
# For each language words that a reader may look for, and a page that is about them.
WORDS = {
    "tr": {
        "gradyan": "chapters/multiple-gpus",
        "gradyanları": "chapters/multiple-gpus",
        "çekirdek": "chapters/devices",
        "akış": "chapters/auto-parallelism",
        "zaman çizelgesi": "chapters/devices",
        "veri paralelliği": "chapters/multiple-gpus",
        "bellek": "chapters/devices",
        "İkinci": "chapters/devices",
        "all-reduce": "chapters/multiple-gpus",
        "LeNet": "chapters/devices",
    },
    "ko": {
        "기울기": "chapters/multiple-gpus",
        "기울기를": "chapters/multiple-gpus",
        "커널": "chapters/devices",
        "스트림": "chapters/auto-parallelism",
        "타임라인": "chapters/devices",
        "데이터 병렬화": "chapters/multiple-gpus",
        "메모리": "chapters/devices",
        "시계": "chapters/devices",
        "all-reduce": "chapters/multiple-gpus",
        "LeNet": "chapters/devices",
    },
    "zh": {
        "梯度": "chapters/multiple-gpus",
        "核函数": "chapters/devices",
        "流": "chapters/auto-parallelism",
        "时间线": "chapters/devices",
        "数据并行": "chapters/multiple-gpus",
        "显存": "chapters/devices",
        "小批量": "chapters/multiple-gpus",
        "时钟": "chapters/devices",
        "all-reduce": "chapters/multiple-gpus",
        "LeNet": "chapters/devices",
    },
}


@EVERY
def test_the_form_of_what_is_translated(language):
    found = [problem for name in pages.names() for problem in checks.of_page(language, name)]
    found += checks.of_headings(language)
    assert [str(problem) for problem in found if problem.kind == "error"] == []


@EVERY
def test_words_of_tools_keep_their_fields(language):
    table = store.read(language, pages.WORDS)
    said = {
        english: table[digest(english)] for english in words.found() if digest(english) in table
    }
    wrong = [text for text in words.problems(said) if not text.startswith("not translated")]
    assert wrong == []


@pytest.mark.process
@EVERY
def test_a_copy_has_the_cells_code_and_outputs_of_the_book(language, tmp_path):
    copy.write(language, place=tmp_path, unreviewed=True)
    assert list(same.compare(ROOT, tmp_path)) == []


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the book in all languages, as `make book LANG=all` does, in a clone."""
    clone = tmp_path_factory.mktemp("all") / "book"
    listed = subprocess.run(
        ["git", "ls-files", "-co", "-z", "--exclude-standard"],
        cwd=ROOT, text=True, capture_output=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, clone / name)
    subprocess.run(["git", "init", "-q"], cwd=clone, check=True)
    command = [sys.executable, "-m", "tools.editions", "run", "--unreviewed", "all"]
    done = subprocess.run(
        [*command, "tools/build_book.py"], cwd=clone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return clone / "_build" / "html"


def named(what, page):
    """Return what a pattern finds in a page's article; entries of the glossary have own names."""
    found = map(unquote, what.findall(ARTICLE.search(page)[0]))
    return Counter(name for name in found if not re.search(r"(?:^|#)term-", name))


def text_of(page):
    """Return what a reader sees of a page's article, without code and formulas."""
    return html.unescape(NO_TEXT.sub(" ", ARTICLE.search(page)[0]))


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@EVERY
def test_pages_have_the_links_places_and_numbers_of_the_english_ones(site, language):
    for name in pages.names()[1:]:
        english = (site / f"{name}.html").read_text(encoding="utf-8")
        page = (site / language / f"{name}.html").read_text(encoding="utf-8")
        for what in (LINK, PLACE, NUMBER):
            assert named(what, page) == named(what, english), f"{name}: {what.pattern}"
        text = text_of(page)
        assert "**" not in text, name
        assert "{glue" not in text, name
        assert f'<html lang="{LANGUAGES[language].sphinx.replace("_", "-")}"' in page


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@EVERY
def test_pages_lead_to_the_same_page_in_other_languages(site, language):
    page = (site / language / "chapters" / "devices.html").read_text(encoding="utf-8")
    assert '"../../chapters/devices.html"' in page
    for other in set(LANGUAGES) - {language}:
        assert f'"../../{other}/chapters/devices.html"' in page
    english = (site / "chapters" / "devices.html").read_text(encoding="utf-8")
    assert f'"../{language}/chapters/devices.html"' in english


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@EVERY
def test_a_search_finds_ten_words(site, language):
    from test_edition_search import FIND, in_node

    answers = in_node(site / language, language, FIND, list(WORDS[language]))
    for (word, page), answer in zip(WORDS[language].items(), answers, strict=True):
        assert page in {found for found, _ in answer["found"]}, word


@pytest.mark.browser
@pytest.mark.timeout(900)
@EVERY
def test_a_page_is_for_everybody(tab, site, language):
    def look(visitor, name):
        found = examine(visitor, f"{address}/{language}/{name}.html")
        return {**found, **impediments_in_light_and_dark(visitor)}

    with served(site) as address:
        assert faults(visit_all(tab, ["chapters/devices", "glossary"], look)) == {}

"""Pages of editions: anchors of the English ones, a menu of languages, notes on what is left."""
# ruff: noqa: RUF001, E501 -- tables of words

import json
import re

import pytest
from support.paths import ROOT
from support.samples import small_edition
from support.samples.small_edition import BASE, EVERY, HEADINGS

from tools.chromium.visits import new_visitor, served
from tools.editions import site
from tools.pages import terms
from tools.readers import book

OTHERS = ["tr", "ko", "zh"]


def read(website, code, name):
    """Return a page in a language."""
    folder = website if code == "en" else website / code
    return (folder / f"{name}.html").read_text(encoding="utf-8")


def article(page):
    """Return the text of a page without what surrounds it."""
    return page[page.index("<article") : page.index("</article>")]


def ids(page):
    return re.findall(r' id="([^"]*)"', re.sub(r"<(?:dt|span) .*?>", "", article(page)))


@pytest.mark.process
@pytest.mark.parametrize("code", OTHERS)
@pytest.mark.parametrize("name", ["intro", "chapters/one", "chapters/two", "glossary"])
def test_a_page_has_the_anchors_of_the_english_one(website, code, name):
    own, english = (read(website, each, name) for each in (code, "en"))
    assert ids(own) == ids(english) != []
    links = [
        re.findall(r'class="reference internal" href="([^"]*)"', one) for one in (own, english)
    ]
    assert links[0] == links[1]


@pytest.mark.process
@pytest.mark.parametrize("code", OTHERS)
def test_a_link_says_the_heading_as_it_is_translated(website, code):
    (said,) = re.findall(
        r'one.html#three-ways-to-split"><span[^>]*>(.*?)<', read(website, code, "intro")
    )
    assert said == HEADINGS[code][1]


@pytest.mark.process
@pytest.mark.parametrize("code", EVERY)
def test_the_menu_leads_to_the_same_page_in_the_other_languages(website, code):
    page = read(website, code, "chapters/one")
    menu = page[page.index('<div class="dropdown dropdown-language-buttons"') :].split("</ul>")[0]
    links = re.findall(r'<a href="([^"]*)" lang="([^"]*)" hreflang="([^"]*)"', menu)
    names = re.findall(r'btn__text-container">([^<]*)<', menu)
    others = [other for other in EVERY if other != code]
    assert names == [EVERY[other].name for other in others]
    assert [each[1] for each in links] == [EVERY[other].hreflang for other in others]
    assert [each[2] for each in links] == [each[1] for each in links]
    assert "_blank" not in menu
    here = website / ("" if code == "en" else code) / "chapters"
    for other, (link, *_) in zip(others, links, strict=True):
        folder = website / ("" if other == "en" else other)
        assert (here / link).resolve() == folder / "chapters" / "one.html"


@pytest.mark.process
def test_search_engines_are_told_where_the_addresses_are_known(website):
    for code in ("en", "ko"):
        page = read(website, code, "chapters/one")
        found = dict(re.findall(r'rel="alternate" hreflang="([^"]*)" href="([^"]*)"', page))
        assert found == {
            "en": f"{BASE}chapters/one.html", "x-default": f"{BASE}chapters/one.html",
            "tr": f"{BASE}tr/chapters/one.html", "ko": f"{BASE}ko/chapters/one.html",
            "zh-Hans": f"{BASE}zh/chapters/one.html",
        }  # fmt: skip
        (own,) = set(re.findall(r'rel="canonical" href="([^"]*)"', page))
        assert own == found[code]
    assert 'rel="alternate" hreflang' not in read(website, "tr", "chapters/one")
    assert 'rel="alternate" hreflang' not in read(website, "ko", "search"), "it is no page to find"


@pytest.mark.process
def test_a_page_says_how_much_of_it_is_english(website):
    def note(code, name):
        found = re.findall(
            r'<div class="d2l-edition" role="note">(.*?)</div>', read(website, code, name)
        )
        return re.findall("<p>(.*?)</p>", found[0]) if found else []

    draft = "This edition is a draft, not yet read by a native reader."
    assert note("ko", "chapters/one") == ["2 of 9 paragraphs are still in English."]
    assert note("ko", "chapters/two") == []
    assert note("ko", "glossary") == ["This page is still in English."]
    assert (note("ko", "intro"), note("zh", "intro")) == ([draft], [])
    assert [note("en", name) for name in ("intro", "chapters/one")] == [[], []]
    assert note("ko", "search") == []


@pytest.mark.process
def test_each_text_says_which_language_it_is_in(website):
    for code in OTHERS:
        page = read(website, code, "chapters/one")
        assert f'<html lang="{EVERY[code].sphinx.replace("_", "-")}"' in page
        assert '<p class="untranslated" lang="en">Still English.</p>' in page
        assert '<section lang="en"' in read(website, code, "glossary")
        assert '<section lang="en"' not in page
    (often, linux) = re.findall(r"<em.*?</em>", article(read(website, "zh", "intro")))
    assert (often, linux) == ("<em>经常</em>", '<em lang="en">Linux</em>')
    assert 'lang="en">' not in article(read(website, "tr", "intro")), "Turkish has italics"


@pytest.mark.process
def test_the_english_book_built_alone_is_what_it_was(tmp_path):
    pages = []
    for with_extension in (True, False):
        place = tmp_path / str(with_extension)
        place.mkdir()
        root = small_edition.write(place / "book", "en", {}, BASE, with_extension)
        target = small_edition.build(root, place / "html")
        pages.append({p.name: p.read_bytes() for p in target.rglob("*.html")})
        pages[-1]["index"] = (target / "searchindex.js").read_bytes()
    assert pages[0] == pages[1]
    assert len(pages[0]) > 4


@pytest.mark.process
@pytest.mark.parametrize(
    ("code", "used"),
    [
        ("tr", {"kovayı": "term-kova"}),
        ("ko", {"버킷": "term-bucket", "데이터 병렬화": "term-data-parallelism"}),
        ("zh", {"数据并行": "term-data-parallelism"}),
    ],
)
def test_terms_lead_to_their_entries(website, code, used):
    page = read(website, code, "chapters/one")
    found = re.findall(r'<a class="term-use" href="[^"]*#([^"]*)"[^>]*>(.*?)</a>', page)
    assert {text: anchor for anchor, text in found} == used
    for anchor in used.values():
        assert f'id="{anchor}"' in read(website, code, "glossary")


def test_links_between_pages_go_by_english_headings(tmp_path, monkeypatch):
    pairs = {"정확히 $k$개의 `GPU`": "Exactly $k$ `GPUs`", "첫째 *장*": "A *first* 1"}
    (tmp_path / "slugs.json").write_text(json.dumps(pairs))
    monkeypatch.setattr(book, "ROOT", tmp_path)
    assert site.slug("정확히 개의 GPU") == "exactly--gpus" == book.slug("정확히 $k$개의 GPU")
    assert site.slug("첫째 장") == "a-first-1" == book.slug(book.plain("첫째 *장*"))
    assert book.english("정확히 k개의 GPU") == "Exactly k GPUs"
    assert site.slug("Not translated") == "not-translated"


def test_a_language_that_there_is_not_is_named(monkeypatch):
    monkeypatch.setenv("BOOK_EDITIONS", "tr ko")
    assert site.languages_built() == ["en", "tr", "ko"]
    monkeypatch.setenv("BOOK_EDITIONS", "ko, xx")
    with pytest.raises(ValueError, match="no language xx; there are: en, tr, ko, zh"):
        site.languages_built()
    monkeypatch.delenv("BOOK_EDITIONS")
    assert site.languages_built() == []


ENTRIES = {
    "tr": (["kova", "bucket"], ["çekirdek", "kernel"], ["akış", "stream"], ["aşama", "stage"],
           ["NCCL"], ["veri paralelliği", "data parallelism"], ["ileti", "message"],
           ["yarış", "race", "data race"], ["işlem hattı paralelliği", "pipeline parallelism", "pipeline"]),
    "ko": (["버킷", "bucket"], ["미니배치", "mini-batch"], ["스트림", "stream"], ["링", "chain"],
           ["단계", "stage"], ["NCCL"], ["데이터 병렬화", "data parallelism"]),
    "zh": (["桶", "bucket"], ["数据并行", "data parallelism"], ["并行", "parallelism"], ["流", "stream"],
           ["阶段", "stage"], ["NCCL"], ["CUDA图", "CUDA graph"], ["时间线", "timeline", "trace"]),
}  # fmt: skip
RIGHT = {
    "tr": {
        "Küçük kovaların her biri": "kovaların", "Kovayı gönderir": "Kovayı",
        "bir çekirdeğin süresi": "çekirdeğin", "çekirdekten çıkar": "çekirdekten",
        "NCCL'nin yolu": "NCCL'nin", "NCCL’ye": "NCCL’ye", "veri paralelliğinde": "veri paralelliğinde",
        "İletiler gider": "İletiler", "akışlarımızdaki": "akışlarımızdaki", "(bucket)": "bucket",
        "işlem hattı paralelliğini": "işlem hattı paralelliğini",
    },
    "ko": {
        "각 버킷은 작다": "버킷", "미니배치를 나눈다": "미니배치", "버킷들로부터는 아니다": "버킷",
        "스트림에서의 일": "스트림", "이것은 버킷입니다": "버킷", "NCCL은 빠르다": "NCCL",
        "데이터 병렬화가": "데이터 병렬화", "버킷(bucket)을": "버킷", "링이 있다": "링",
    },
    "zh": {
        "按数据并行切分": "数据并行", "再用NCCL库求和": "NCCL", "录制CUDA图以后": "CUDA图",
        "都是并行的": "并行", "流（stream）": "stream", "看时间线。": "时间线",
    },
}  # fmt: skip
WRONG = {
    "tr": ["akışkan", "kovalamak", "kovboy", "bakışta", "aşamada", "iki yarışta", "x.kova", "NCCLib", "Rakova"],
    "ko": ["버킷리스트", "링크가", "스트림릿을", "단계는", "대버킷", "my_NCCL", "블링은"],
    "zh": ["流水线", "水桶", "每个阶段", "NCCLs2", "my-NCCL"],
}  # fmt: skip


def finder(language):
    entries = [terms.Entry(names, "g#x", "A.") for names in ENTRIES[language]]
    return terms.Finder(entries, EVERY[language].sphinx)


@pytest.mark.parametrize(
    ("language", "text"), [(code, text) for code, texts in RIGHT.items() for text in texts]
)
def test_uses_of_terms_are_found_as_the_language_inflects_them(language, text):
    start, end, _ = finder(language).first(text, set())
    assert text[start:end] == RIGHT[language][text]


@pytest.mark.parametrize(
    ("language", "text"), [(code, text) for code, texts in WRONG.items() for text in texts]
)
def test_other_words_are_no_uses(language, text):
    assert finder(language).first(text, set()) is None


def test_entries_with_an_everyday_word_are_marked_in_other_languages_as_in_english():
    listed = (ROOT / "glossary.md").read_text(encoding="utf-8").split("```{glossary}")[1]
    entries = re.findall(r"(?m)^((?:\S.*\n)+)  \S", listed.split("```")[0])
    names = [entry.strip().split("\n") for entry in entries]
    assert len(names) > 100
    mixed = {n[0] for n in names if set(n) & terms.COMMON and n[0] not in terms.COMMON}
    assert mixed == terms.TERMS_ANYWAY


PLACE = "location.pathname + location.hash"
ENTRY = "document.querySelector('.dropdown-language-buttons a[lang={}]')"


def test_the_menu_keeps_the_place_on_a_page(website, tab):
    visitor = new_visitor(tab)
    with served(website) as address:
        visitor.visit(f"{address}/chapters/one.html#three-ways-to-split")
        visitor.ask("location.hash = 'exercises'")
        visitor.wait(f"{ENTRY.format('ko')}.hash === '#exercises'")
        visitor.ask(f"{ENTRY.format('ko')}.click()")
        visitor.wait(f"{PLACE} === '/ko/chapters/one.html#exercises'")
        visitor.wait(f"{ENTRY.format('en')}?.hash === '#exercises'")
        visitor.ask(f"{ENTRY.format('en')}.click()")
        visitor.wait(f"{PLACE} === '/chapters/one.html#exercises'")


STYLE = "getComputedStyle(document.querySelector('article {}')).{}"


@pytest.mark.parametrize("code", EVERY)
def test_letters_suit_the_language(website, tab, code):
    visitor = new_visitor(tab)
    with served(website) as address:
        visitor.visit(f"{address}/{'' if code == 'en' else code + '/'}intro.html")
        visitor.ask("document.head.insertAdjacentHTML('beforeend', "
                    "'<link rel=stylesheet href=_static/book.css onload=\"window.styled = 1\">')")  # fmt: skip
        visitor.wait("window.styled === 1")
        found = {
            name: visitor.ask(STYLE.format("em", name))
            for name in ("fontStyle", "textEmphasisStyle", "wordBreak", "fontFamily")
        }
        latin = [
            visitor.ask(STYLE.format("em:last-of-type", n))
            for n in ("textEmphasisStyle", "fontStyle")
        ]
    assert found["fontStyle"] == ("normal" if code in ("ko", "zh") else "italic")
    assert ("dot" in found["textEmphasisStyle"]) == (code == "zh")
    assert found["wordBreak"] == ("keep-all" if code == "ko" else "normal")
    assert ("Malgun" in found["fontFamily"]) == (code == "ko")
    assert ("YaHei" in found["fontFamily"]) == (code == "zh")
    assert latin == ["none", "italic"], "Latin words are emphasised as in English"

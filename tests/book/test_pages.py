"""The built pages in a browser: quiet, found by a search, for everybody.

One browser visits all of them.
"""

import re
import shutil

import pytest
from support import live
from support.page_faults import (
    AXE,
    PHONE,
    PLATES,
    WIDTH,
    examine,
    faults,
    impediments,
    impediments_in_light_and_dark,
)
from support.paths import ROOT
from support.samples.contents import toc_files

from tools.chromium.visits import new_visitor, served, visit_all

pytestmark = pytest.mark.timeout(600)  # the first test waits for the book

HEAVIEST = 1_500_000
SIZE = "['navigation', 'resource'].flatMap(kind => performance.getEntriesByType(kind))"
SIZE += ".reduce((sum, entry) => sum + entry.decodedBodySize, 0)"


def page_names(built):
    names = [p.relative_to(built).as_posix()[:-5] for p in built.rglob("*.html")]
    return sorted(name for name in names if not name.startswith("_static"))


@pytest.fixture(scope="module")
def site(built):
    with served(built) as address:
        yield address


def test_every_page_from_a_server(built, site, tab):
    """Quiet, no wider than a phone, not heavy, for everybody."""

    def look(visitor, name):
        visitor.call("Network.setCacheDisabled", cacheDisabled=True)
        found = examine(visitor, f"{site}/{name}.html")
        weights[name] = visitor.ask(SIZE)
        if name != "index":  # which only leads elsewhere
            found |= impediments_in_light_and_dark(visitor)
        return {**found, "heavy": weights[name] if weights[name] > HEAVIEST else None}

    weights = {}
    assert faults(visit_all(tab, page_names(built), look)) == {}
    assert min(weights.values()) > 100_000, "style sheets and fonts are counted"


def test_every_page_is_quiet_as_a_file(built, tab):
    def look(visitor, name):
        return examine(visitor, (built / f"{name}.html").as_uri())

    assert faults(visit_all(tab, page_names(built), look)) == {}


BAD_PAGE = """<!DOCTYPE html><html lang="en"><title>x</title><body><main><h1>x</h1>
<button></button><p id="a" style="color: #999; background: #aaa">faint</p><p id="a">twice</p>
<article><div style="width: 600px; height: 20px; background: #eee">wide</div></article>
<div class="cell_output"><img width="90" alt="y" src="data:image/svg+xml,%3Csvg
xmlns='http://www.w3.org/2000/svg' width='900' height='9'/%3E"></div>
<img src="http://localhost:9/x.png" alt="x">
<script>console.log("here"); undefined.name</script></main></body></html>"""


def test_a_bad_page_would_be_found(tab, tmp_path):
    (tmp_path / "bad.html").write_text(BAD_PAGE)
    visitor = new_visitor(tab)
    with served(tmp_path) as address:
        found = examine(visitor, f"{address}/bad.html")
    assert all(found.values()), found
    for message in ('"here"', "Uncaught"):
        assert message in " ".join(found["said"])
    visitor.ask(f"{AXE}; 0")
    wrong = " ".join(impediments(visitor))
    assert visitor.ask(PLATES) == [""]
    assert "button-name" in wrong
    assert "color-contrast" in wrong


WIDE = "[...document.querySelectorAll('.cell_input pre')]"
WIDE += ".filter(e => e.scrollWidth > e.clientWidth + 4)"


def test_code_that_scrolls_on_a_phone_fades_where_there_is_more(site, tab):
    visitor = new_visitor(tab)
    visitor.call("Emulation.setDeviceMetricsOverride", **PHONE)
    visitor.visit(f"{site}/chapters/multiple-gpus.html")
    assert visitor.wait(f"{WIDE}.length > 3 && {WIDE}.every(e => e.matches('.d2l-more'))", 10)
    assert "gradient" in visitor.ask(f"getComputedStyle({WIDE}[0]).maskImage")
    visitor.ask(f"{WIDE}[0].scrollLeft = 9999")
    assert visitor.wait(f"!{WIDE}[0].matches('.d2l-more')", 10), "its end is seen"
    visitor.call("Emulation.clearDeviceMetricsOverride")


SEARCHES = {
    "allreduce": "chapters/collectives.html",
    "NCCL": "chapters/collectives.html",
    "pinned memory": "chapters/auto-parallelism.html",
    "torchrun": "chapters/multiple-gpus-concise.html",
    "OOM": "chapters/memory-and-sharding.html",
    "FSDP": "chapters/memory-and-sharding.html",
}
HITS = "[...document.querySelectorAll('ul.search > li > a')].map(a => a.getAttribute('href'))"
FOUND = "/found/.test(document.querySelector('#search-results')?.innerText)"


@pytest.mark.parametrize("as_file", [False, True], ids=["server", "file"])
def test_search_finds_the_page_that_teaches_a_word(built, site, tab, as_file):
    page = (built / "search.html").as_uri() if as_file else f"{site}/search.html"

    def look(visitor, word):
        visitor.visit(f"{page}?q={word.replace(' ', '+')}")
        visitor.wait(FOUND)
        assert visitor.said() == []
        return [re.split("[?#]", hit)[0] for hit in visitor.ask(HITS)]

    hits = visit_all(tab, list(SEARCHES), look)
    assert {found[0] for found in hits.values()} == {"glossary.html"}, "the definition comes first"
    for word, found in hits.items():
        pages = [page for page in found if page != "glossary.html"] or found
        assert pages[0] == SEARCHES[word]
    for word, found in hits.items():
        last = [hit == "references.html" for hit in found]
        assert last == sorted(last), f"{word}: sources before chapters, {found}"


FIELD = "document.querySelector('.bd-search-container form > %s')"
WORDS = f"""(() => {{ const e = {FIELD % "input"};
  return e.getBoundingClientRect().left + parseFloat(getComputedStyle(e).paddingLeft); }})()"""


def test_the_icon_of_the_search_stands_before_the_words(site, tab):
    visitor = new_visitor(tab)
    visitor.visit(f"{site}/search.html")
    icon = visitor.ask(f"{FIELD % 'i'}.getBoundingClientRect().right")
    assert 0 < icon < visitor.ask(WORDS)


LABELS = "[...document.querySelectorAll('.citation > .label')].filter(e => e.offsetWidth).length"
STARTS = """new Set([...document.querySelectorAll('.citation > p')].map(
  e => Math.round(e.getBoundingClientRect().left))).size"""


def test_sources_stand_below_each_other_without_labels_that_nobody_cites(site, tab):
    visitor = new_visitor(tab)
    visitor.visit(f"{site}/references.html")
    assert visitor.ask("document.querySelectorAll('.citation').length") > 40
    assert visitor.ask(LABELS) == 0
    assert visitor.ask(STARTS) == 1


def press(visitor, key, **more):
    code = {"Tab": 9, "Enter": 13, "Escape": 27}.get(key, ord(key[0].upper()))
    keys = {"key": key, "windowsVirtualKeyCode": code, **more}
    text = {"text": "\r"} if key == "Enter" else {}
    visitor.call("Input.dispatchKeyEvent", type="keyDown", **keys, **text)
    visitor.call("Input.dispatchKeyEvent", type="keyUp", **keys)


def test_a_page_is_used_by_keyboard(site, tab):
    visitor = new_visitor(tab)
    visitor.visit(f"{site}/chapters/devices.html")
    visitor.call("Page.bringToFront")
    press(visitor, "Tab")
    assert visitor.ask("document.activeElement.getAttribute('href')") == "#main-content"
    visitor.wait("document.activeElement.getBoundingClientRect().top >= 0")  # seen
    press(visitor, "Enter")
    assert visitor.wait("location.hash") == "#main-content"
    press(visitor, "k", modifiers=2)
    visitor.wait("document.querySelector('#pst-search-dialog').open")
    assert visitor.ask("document.activeElement.name") == "q"
    press(visitor, "Escape")
    visitor.wait("!document.querySelector('#pst-search-dialog').open")


FOCUS = """(() => { const e = document.activeElement, s = getComputedStyle(e);
  return [e.tagName + '.' + e.className, s.outlineStyle, parseFloat(s.outlineWidth), s.boxShadow];
})()"""


def test_what_has_the_focus_is_seen(site, tab):
    visitor = new_visitor(tab)
    visitor.visit(f"{site}/chapters/devices.html")
    visitor.call("Page.bringToFront")
    unseen = set()
    for _ in range(60):
        press(visitor, "Tab")
        name, style, width, shadow = visitor.ask(FOCUS)
        if (style == "none" or width < 1) and shadow == "none" and not name.startswith("BODY"):
            unseen.add(name)
    assert unseen == set()


def test_the_dark_mode_is_switched_on_and_kept(site, tab):
    visitor = new_visitor(tab)
    visitor.visit(f"{site}/intro.html")
    theme = "document.documentElement.dataset.theme"
    for _ in range(3):
        if visitor.ask(theme) == "dark":
            break
        visitor.ask("document.querySelector('.theme-switch-button').click()")
    assert visitor.ask(theme) == "dark"
    ground = visitor.ask("getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, re.findall(r"\d+", ground)[:3])) < 150, ground
    visitor.visit(f"{site}/chapters/devices.html")
    assert visitor.ask(theme) == "dark", "the next page is dark, too"


EXPLORABLE = """
    [document.querySelectorAll('.d2l-tl').length,
     document.querySelectorAll('.d2l-tl-live [role=application]').length,
     document.querySelectorAll('.d2l-calculator .d2l-output, .d2l-gpu').length]
"""


def test_timelines_and_calculators_of_the_pages_work(site, tab):
    def look(visitor, name):
        visitor.visit(f"{site}/{name}.html")
        return visitor.ask(EXPLORABLE)

    found = visit_all(tab, [name for name in toc_files() if name.startswith("chapters/")], look)
    assert {name for name, (drawn, explorable, _) in found.items() if drawn != explorable} == set()
    assert sum(drawn for drawn, _, _ in found.values()) > 10
    assert sum(shown for _, _, shown in found.values()) == 3 + 5 + 1  # chapter 7 has one, too


SIDES = """[...document.querySelectorAll('.output.full-width')].map(e => [e, e.closest('.cell')])
    .map(pair => pair.map(e => e.getBoundingClientRect()))
    .map(([own, cell]) => [own.width / cell.width, own.right])"""


@pytest.mark.parametrize(("width", "share"), [(1600, 1.36), (1200, 1.36), (1024, 1), (390, 1)])
def test_crowded_timelines_are_as_wide_as_there_is_room(site, tab, width, share):
    visitor = new_visitor(tab)
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    visitor.call("Emulation.setDeviceMetricsOverride", **size)
    visitor.visit(f"{site}/chapters/overlap-and-scaling.html")
    found = visitor.ask(SIDES)
    assert found
    for ratio, right in found:
        assert ratio == pytest.approx(share, abs=0.01)
        assert right <= width
    assert visitor.ask(WIDTH) <= width


COVERS = "[...document.querySelectorAll('.d2l-cover')].map(cover => !cover.hidden)"
SAYS = "[...document.querySelectorAll('.d2l-result')].map(e => e.textContent)"
SEEN = "querySelector('.cell_output').checkVisibility({visibilityProperty: true})"
OPTION = "document.querySelectorAll('.d2l-guess')[%d].querySelectorAll('button')[%d].click()"


@pytest.fixture(scope="module")
def live_site(built, tmp_path_factory):
    """Serve the book as `make live` does."""
    root = built.parents[1]
    (root / "_build" / "notebooks").mkdir()
    shutil.copytree(ROOT / "chapters", root / "chapters")
    folder = live.checkout(tmp_path_factory.mktemp("checkout"))
    served = live.start(folder, tmp_path_factory.mktemp("home"), "--no-build", f"--root {root}")
    yield served
    live.end(served)


def test_a_cell_that_is_run_uncovers_the_answer_of_its_own_guess(live_site, tab):
    visitor = new_visitor(tab)
    visitor.visit(f"{live_site.address}/book/chapters/devices.html?token={live_site.token}")
    visitor.wait("document.querySelector('.d2l-live-bar') !== null")
    assert visitor.ask(COVERS) == [True] * 4
    cell = live.edit(visitor, "(device,) = gpus(1, quiet=True)\nsmall", "print('edited')")
    assert not visitor.ask(f"{cell}.{SEEN}")
    live.press(visitor, cell)  # and the cells above it, that of the first guess among them
    visitor.wait(f"{live.STATUS} === 'Ready.'")
    assert live.shown(visitor, cell).strip() == "edited"
    assert visitor.ask(f"{cell}.{SEEN}")
    assert visitor.ask(COVERS) == [True, False, True, True], "the others stay to be guessed"
    assert visitor.ask(SAYS)[:2] == ["", "The answer: it hardly changes."]
    visitor.ask(OPTION % (1, 2))
    said = "You guessed it is a thousand times as long; the answer is it hardly changes."
    assert visitor.ask(SAYS)[1] == said
    assert live.shown(visitor, cell).strip() == "edited", "it is not the book's again"
    first = f"{live.CELL}.startsWith('device = devices[0]'))"
    assert "launched after" in live.shown(visitor, first)
    assert not visitor.ask(f"{first}.{SEEN}")
    visitor.ask(OPTION % (0, 0))
    assert visitor.ask(f"{first}.{SEEN}")
    assert visitor.ask(SAYS)[0].endswith("which is right.")
    assert visitor.said() == []

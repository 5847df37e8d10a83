"""The drawings: stored files are current, accessible, self-contained, and their text fits."""

import re
import xml.etree.ElementTree as ET
from itertools import combinations

import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from support.paths import ROOT

from tools.canvas import WIDTH, Canvas
from tools.figures import FIGURES, IMAGE_DIR, render_all

SVG = "{http://www.w3.org/2000/svg}"
PHONE, SMALLEST_PX = 360, 11

# DejaVu Sans, which matplotlib carries, is wider than the faces most systems show, so that what
# fits in it fits elsewhere.
FACES = {
    bold: FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    for bold in (False, True)
}


def text_box(element):
    """Return left, top, right, bottom of a text element, as estimated in DejaVu Sans."""
    size = float(element.get("font-size"))
    bold = element.get("font-weight") == "bold"
    pieces = [(element.text or "", size)]
    for span in element:
        pieces += [(span.text or "", float(span.get("font-size", size))), (span.tail or "", size)]
    # TextPath drops a trailing blank, so that a full stop is set behind each piece and taken off.
    stop = TextPath((0, 0), ".", size=100, prop=FACES[bold]).get_extents().x1
    width = sum(
        (TextPath((0, 0), text + ".", size=100, prop=FACES[bold]).get_extents().x1 - stop) * s / 100
        for text, s in pieces
        if text
    )
    x, y = float(element.get("x")), float(element.get("y"))
    left = {"start": x, "middle": x - width / 2, "end": x - width}[
        element.get("text-anchor", "start")
    ]
    return left, y - 0.75 * size, left + width, y + 0.2 * size


def faults(svg):
    """Return what is wrong with the text of an SVG file; an empty list if nothing is."""
    root = ET.fromstring(svg)
    _, _, width, height = map(float, root.get("viewBox").split())
    found, boxes = [], []
    for element in root.iter(f"{SVG}text"):
        words = "".join(element.itertext())
        left, top, right, bottom = text_box(element)
        boxes.append((words, left, top, right, bottom))
        if left < 4 or top < 2 or right > width - 4 or bottom > height - 2:
            found.append(f"{words!r} leaves the picture")
        if "data-fit" in element.attrib and right - left > float(element.get("data-fit")) + 0.5:
            room = element.get("data-fit")
            found.append(f"{words!r} needs {right - left:.0f} units and has {room}")
        if float(element.get("font-size")) * PHONE / width < SMALLEST_PX:
            found.append(f"{words!r} is too small at {PHONE} px")
    for a, b in combinations(boxes, 2):
        if a[1] < b[3] and b[1] < a[3] and a[2] < b[4] and b[2] < a[4]:
            found.append(f"{a[0]!r} overlaps {b[0]!r}")
    return found


@pytest.fixture(scope="module")
def rendered():
    return render_all()


def test_stored_files_are_what_the_scripts_draw(rendered):
    for name, svg in rendered.items():
        stored = (IMAGE_DIR / name).read_text(encoding="utf-8")
        assert stored == svg, f"{name} is stale: run python -m tools.figures"


def test_drawing_twice_gives_the_same_bytes(rendered):
    assert render_all() == rendered


@pytest.mark.parametrize("name", FIGURES)
def test_figure_is_accessible(name, rendered):
    root = ET.fromstring(rendered[name])
    assert root.get("role") == "img"
    assert root.get("viewBox")
    title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert 5 < len(title.text) < 80
    assert len(desc.text) > len(title.text)
    assert root.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}"
    background = root.find(f"{SVG}rect")
    assert background.get("fill") == "#FFFFFF", "needed in dark mode"


@pytest.mark.parametrize("name", FIGURES)
def test_figure_needs_nothing_from_outside(name, rendered):
    svg = rendered[name].replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|href|url\(|@import|<script|<image|<foreignObject", svg)


@pytest.mark.parametrize("name", FIGURES)
def test_text_fits_and_can_be_read_on_a_telephone(name, rendered):
    assert faults(rendered[name]) == []


@pytest.mark.parametrize(
    ("draw", "expected"),
    [
        (lambda c: c.box(10, 10, 60, 30, "far too long for it"), "needs"),
        (lambda c: c.text(WIDTH, 50, "outside"), "leaves the picture"),
        (lambda c: c.text(100, 50, "tiny", size=9), "too small"),
        (lambda c: (c.text(100, 50, "one"), c.text(104, 53, "other")), "overlaps"),
    ],
)
def test_check_rejects_text_that_does_not_fit(draw, expected):
    canvas = Canvas(WIDTH, 100, "A title", "A description that is longer.")
    draw(canvas)
    assert any(expected in fault for fault in faults(canvas.svg()))


def test_subscripts_return_to_the_base_line():
    canvas = Canvas(WIDTH, 100, "A title", "A description that is longer.")
    canvas.text(20, 50, "*g*_{0} + x^{2} < 3", anchor="start")
    element = ET.fromstring(canvas.svg()).find(f"{SVG}text")
    assert "".join(element.itertext()) == "g0 + x2 < 3"
    assert sum(float(span.get("dy", 0)) for span in element) == pytest.approx(0, abs=0.02)


def test_ring_reaches_the_sum_everywhere_in_the_fewest_steps():
    from tools.figures.collectives import K, _contributions

    def complete(step):
        return [len(terms) == K for terms, _ in _contributions(step).values()]

    assert sum(complete(K - 1)) == K  # after the reduce-scatter, one chunk on each GPU
    assert all(complete(2 * K - 2))
    assert not all(complete(2 * K - 3))
    for step in range(1, 2 * K - 1):
        arrivals = [place for place, (_, arrived) in _contributions(step).items() if arrived]
        assert sorted(gpu for gpu, _ in arrivals) == list(range(K))


def test_every_drawing_is_on_a_page():
    pages = [*IMAGE_DIR.parent.glob("*.ipynb"), *ROOT.glob("*.md"), ROOT / "_config.yml"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert [name for name in FIGURES if f"img/{name}" not in text] == []

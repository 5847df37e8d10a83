"""Allreduce, step by step, in a browser: all that it shows against a reference."""

import pytest
import torch
from support.paths import ROOT

from d2lmini.collectives import allreduce_ring

PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Steps</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<link rel="stylesheet" href="{assets}/play.css"></head><body><h1>Steps</h1>
<div class="d2l-allreduce"></div><script src="{assets}/words.js"></script>
<script src="{assets}/allreduce.js"></script></body></html>"""
# What is drawn of each GPU's chunks: the sum of 2 ** term over the terms that are coloured.
DRAWN = """
    (() => {
        const held = {};
        for (const e of document.querySelectorAll('.d2l-gpu rect[data-gpu]')) {
            const place = `${e.dataset.gpu},${e.dataset.chunk}`;
            held[place] = (held[place] ?? 0) + 2 ** e.dataset.term;
        }
        return held;
    })()
"""
CHOOSE = """
    (() => {
        const [kind, count] = document.querySelectorAll('.d2l-allreduce select');
        kind.value = '%s'; kind.onchange(); count.value = '%d'; count.onchange();
    })()
"""
STATUS = "document.querySelector('.d2l-status').textContent"


@pytest.fixture(scope="module")
def tab(tab, tmp_path_factory):
    """Open a page with the steps."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(PAGE.format(assets=(ROOT / "assets").as_uri()), encoding="utf-8")
    tab.call("Page.enable")
    watch = "addEventListener('error', event => (window.wrong ??= []).push(event.message));"
    tab.call("Page.addScriptToEvaluateOnNewDocument", source=watch)
    tab.open(path.as_uri())
    tab.wait("document.querySelectorAll('.d2l-gpu').length == 4", 20)
    yield tab
    assert tab.ask("window.wrong ?? []") == []
    loaded = tab.ask("performance.getEntriesByType('resource').map(e => e.name)")
    assert all(name.startswith("file:") for name in loaded)


def star(k):
    """Yield the buffers after each copy: to GPU 0, which adds, and back."""
    data = [2**i for i in range(k)]
    yield [[x] for x in data]
    for i in range(1, k):
        data[0] += data[i]
        yield [[x] for x in data]
    for i in range(1, k):
        data[i] = data[0]
        yield [[x] for x in data]


def ring(k):
    """Yield the chunks after each step: reduce-scatter, then all-gather."""
    data = [[2**i] * k for i in range(k)]
    yield data
    for step in range(2 * (k - 1)):
        new = [list(row) for row in data]
        for i in range(k):
            right = (i + 1) % k
            if step < k - 1:
                new[right][(i - step) % k] += data[i][(i - step) % k]
            else:
                j = (i + 1 - (step - k + 1)) % k
                new[right][j] = data[i][j]
        yield (data := new)


def tree(k):
    """Yield the buffers after each round: neighbours, then those two apart, and back."""
    data, distances = [2**i for i in range(k)], []
    yield [[x] for x in data]
    distance = 1
    while distance < k:
        for i in range(0, k - distance, 2 * distance):
            data[i] += data[i + distance]
        yield [[x] for x in data]
        distances.append(distance)
        distance *= 2
    for distance in reversed(distances):
        for i in range(0, k - distance, 2 * distance):
            data[i + distance] = data[i]
        yield [[x] for x in data]


ALGORITHMS = {"star": star, "ring": ring, "tree": tree}


def drawn(tab, k):
    held = tab.ask(DRAWN)
    chunks = len(held) // k
    return [[held[f"{i},{c}"] for c in range(chunks)] for i in range(k)]


@pytest.mark.parametrize("k", range(2, 9))
@pytest.mark.parametrize("kind", ALGORITHMS)
def test_every_step_shows_what_the_reference_holds(tab, kind, k):
    expected = list(ALGORITHMS[kind](k))
    tab.ask(CHOOSE % (kind, k))
    for number, data in enumerate(expected):
        assert drawn(tab, k) == data, f"after step {number}"
        where = f"Step {number} of {len(expected) - 1}" if number else "Before step 1"
        assert tab.ask(STATUS).startswith(where)
        tab.ask("[...document.querySelectorAll('.d2l-controls button')].at(-1).click()")
    assert drawn(tab, k) == expected[-1]  # there is no further step
    assert {x for row in expected[-1] for x in row} == {2**k - 1}
    assert "every GPU holds the whole sum" in tab.ask(STATUS)


def test_the_ring_of_the_reference_is_the_books():
    for k in range(2, 9):
        data = [torch.full((k,), 2**i) for i in range(k)]
        allreduce_ring(data)
        assert [d.tolist() for d in data] == list(ring(k))[-1]


def test_arrow_keys_go_on_and_back(tab):
    tab.ask(CHOOSE % ("ring", 4))
    tab.ask("document.querySelectorAll('.d2l-controls button')[2].focus()")
    expected = list(ring(4))
    for key, number in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("ArrowLeft", 0)):
        for kind in ("keyDown", "keyUp"):
            tab.call("Input.dispatchKeyEvent", type=kind, key=key)
        assert drawn(tab, 4) == expected[number]
    tab.ask("document.querySelectorAll('.d2l-controls button')[1].click()")
    assert drawn(tab, 4) == expected[0]


def test_the_picture_is_told_in_words(tab):
    tab.ask(CHOOSE % ("tree", 4))
    tab.ask("[...document.querySelectorAll('.d2l-controls button')].at(-1).click()")
    status = tab.ask(STATUS)
    assert "GPU 1 sends its buffer to GPU 0, which adds it" in status
    assert "GPU 3 sends its buffer to GPU 2, which adds it" in status
    told = tab.ask("document.querySelector('.d2l-allreduce svg').ariaLabel")
    assert "GPU 0 holds the parts of GPU 0 and 1." in told
    assert "GPU 3 holds the part of GPU 3." in told


@pytest.mark.parametrize(("kind", "times"), [("star", 14), ("ring", 1.75), ("tree", 6)])
def test_cost_counts_bytes(tab, kind, times):
    tab.ask(CHOOSE % (kind, 8))
    assert f"sending all bytes {times} times over one link" in tab.ask(
        "document.querySelector('.d2l-cost').textContent"
    )


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_page(tab, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    tab.call("Emulation.setDeviceMetricsOverride", **size)
    for kind in ALGORITHMS:
        tab.ask(CHOOSE % (kind, 8))
        assert tab.ask("document.documentElement.scrollWidth") <= width
    tab.call("Emulation.clearDeviceMetricsOverride")

"""The explorable timelines in a browser: what they read, show and do, with and without scripts."""

import json
import math
import random

import nbformat
import pytest
from support.paths import ROOT
from support.timelines import US, overlap

from simgpu.clock.span import Span
from simgpu.run import page as launcher_page
from simgpu.timeline import Timeline, kinds, svg, widget
from simgpu.timeline.layout import PLOT, layout
from tools.readers.pictures import described

# What a page complains of, and whether it asked for anything.
WATCH = """
    window.messages = [];
    for (const kind of ['log', 'info', 'warn', 'error'])
        console[kind] = (...words) => messages.push(`${kind}: ${words.join(' ')}`);
    addEventListener('error', event => messages.push(`error: ${event.message}`));
    addEventListener('unhandledrejection', event => messages.push(`error: ${event.reason}`));
"""
WIDTH = "document.querySelector('%s').getBoundingClientRect().width"
BOXES = """
    [...document.querySelectorAll('.d2l-tl-live')].map(root => root.d2l.model.lanes.map(lane => ({
        name: lane.name, busy: d2lTimeline.busyShare(lane, root.d2l.model.seconds),
        boxes: lane.boxes.map(({name, count, start, end, when, kind, y}) =>
            ({name, count, start, end, when, kind, y})),
    })))
"""
STATE = """
    (() => {
        const w = document.querySelectorAll('.d2l-tl')[%d].d2l;
        return {
            from: w.from, to: w.to, all: w.model.seconds, width: w.width,
            tip: w.tip.hidden ? '' : w.tip.innerText, said: w.status.textContent,
            ticks: [...w.grid.querySelectorAll('path')].map((path, i) =>
                [parseFloat(path.getAttribute('d').slice(1)),
                 path.nextSibling.textContent]),
            cursor: w.cursor.getAttribute('visibility') == 'visible' ? w.now.textContent : '',
            drawn: w.model.lanes.flatMap(lane => lane.boxes)
                .filter(box => box.group.style.display != 'none')
                .map(box => [box.start, box.end, +box.rect.getAttribute('x'),
                             +box.rect.getAttribute('width')]),
        };
    })()
"""


def many(seed):
    """Spans of all lengths on three devices, some at the same time, seen through a window."""
    rng, spans = random.Random(seed), []
    for device in range(3):
        t = 1.0
        for _ in range(70):
            duration = 10 ** rng.uniform(-6, -2.5)
            name = rng.choice(["mm", "add_", "aten::addmm", "void at::relu<4>(int)", "odd, <&>"])
            engine = rng.choice(["compute", "compute", "h2d", "comm"])
            spans.append(Span(f"sim:{device}", engine, 0, name, t, duration, 10**6, 10**5))
            t += duration * rng.choice((0.7, 1.0, 1.5))
    whole = Timeline(spans)
    middle = (whole.start + whole.end) / 2
    return whole if seed % 2 else whole.between(middle - 0.01, middle + 0.01)


BOXES_OF_FIRST = 1 + 6 + 6  # the launches are too short to draw one by one
VIEW = Span("sim:0", "compute", 0, "view", 1.0, 0.0)
TIMELINES = [Timeline(overlap()), many(1), many(2), Timeline([VIEW])]


def page(figures, script=True):
    script = f"<script>{widget.script()}</script>" if script else ""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Timelines</title>'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        "<style>:root{color-scheme:light dark}body{margin:16px;max-width:800px}</style></head>"
        f"<body><h1>Timelines</h1>{''.join(figures)}{script}</body></html>"
    )


@pytest.fixture(scope="module")
def tab(tab, tmp_path_factory):
    """Have a page note what it complains of; give it a folder for pages."""
    tab.call("Page.enable")
    tab.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    tab.folder = tmp_path_factory.mktemp("pages")
    return tab


def show(tab, text, width=1280, dark=False, height=900):
    """Open a page of that text; return when it is there."""
    theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    tab.call("Emulation.setEmulatedMedia", features=[theme])
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    tab.call("Emulation.setDeviceMetricsOverride", **size)
    tab.call("Emulation.setTouchEmulationEnabled", enabled=width < 500, maxTouchPoints=2)
    path = tab.folder / f"{len(list(tab.folder.iterdir()))}.html"
    path.write_text(text, encoding="utf-8")
    tab.open(path.as_uri())
    tab.wait(f"location.href == {path.as_uri()!r} && document.readyState == 'complete'")


@pytest.fixture(params=[(1280, False), (390, True)], ids=["desktop", "phone, dark"])
def opened(tab, request):
    width, dark = request.param
    show(tab, page(map(svg.html, TIMELINES)), width, dark)
    yield tab
    assert tab.ask("messages") == []
    assert tab.ask("performance.getEntriesByType('resource').map(e => e.name)") == []
    assert tab.ask("document.documentElement.scrollWidth") <= width


def state(tab, number=0):
    return tab.ask(STATE % number)


def place(tab, number, seconds, lane):
    """Return where a moment of a lane is in the window."""
    return tab.ask(
        f"(() => {{ const w = document.querySelectorAll('.d2l-tl')[{number}].d2l;"
        "w.area.scrollIntoView({block: 'center'}); const f = w.area.getBoundingClientRect();"
        f"return [f.left + w.x({seconds}), f.top + w.model.lanes[{lane}].y"
        f" + w.model.lanes[{lane}].shift + 10] }})()"
    )


def mouse(tab, kind, x, y, **more):
    tab.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)


def press(tab, key, **more):
    for kind in ("keyDown", "keyUp"):
        tab.call("Input.dispatchKeyEvent", type=kind, key=key, **more)


def focus(tab, number=0):
    tab.ask(f"document.querySelectorAll('.d2l-tl')[{number}].d2l.area.focus()")


def touch(tab, kind, *points):
    points = [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(points)]
    tab.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)


# What is read


def half_a_digit(text):
    """Return half of the last of three digits."""
    value = float(text.replace(",", ""))
    return 0.5 * 10 ** (math.floor(math.log10(value)) - 2) if value else 0.0


def compare(lanes, timeline):
    """Compare what a widget has read with the spans that were drawn."""
    figure, length = layout(timeline), (timeline.end - timeline.start) or 1e-9
    pixel = length / PLOT
    assert [lane["name"] for lane in lanes] == [name for name, _, _ in figure.lanes]
    busy = {" ".join(lane): share for lane, share in timeline.busy().items()}
    for lane, (name, _, rows) in zip(lanes, figure.lanes, strict=True):
        if not all(box.narrow or len(rows) > 1 for row in rows for box in row):
            assert lane["busy"] == pytest.approx(busy[name], abs=0.02)
        drawn = sorted((y, box.left, box) for y, row in enumerate(rows) for box in row)
        read = sorted(lane["boxes"], key=lambda box: (box["y"], box["start"]))
        assert len(read) == len(drawn)
        for found, (_, _, box) in zip(read, drawn, strict=True):
            first, last = box.spans[0], max(span.end for span in box.spans)
            assert found["count"] == len(box.spans)
            start = min(max(first.start - timeline.start, 0.0), length)
            end = min(last - timeline.start, length)
            assert found["start"] == pytest.approx(start, abs=0.051 * pixel)
            assert found["end"] == pytest.approx(end, abs=0.45 * pixel)
            if len(box.spans) == 1:
                assert found["name"] == first.name
                assert f"lasts {svg.quantity(first.duration, 's')}" in found["when"]
            start_text, unit = found["when"].split()[2:4]
            power = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1}[unit.removesuffix(",")]
            assert float(start_text.replace(",", "")) * power == pytest.approx(
                start, abs=1.001 * half_a_digit(start_text) * power
            )


def test_all_read_outs_are_those_of_the_spans(opened):
    read = opened.ask(BOXES)
    assert len(read) == len(TIMELINES)
    for lanes, timeline in zip(read, TIMELINES, strict=True):
        compare(lanes, timeline)


@pytest.mark.parametrize("key", ["start", "end", "count", "name"])
def test_a_misread_span_would_be_found(tab, key):
    show(tab, page([svg.html(TIMELINES[0])]))
    (lanes,) = tab.ask(BOXES)
    compare(lanes, TIMELINES[0])
    box = lanes[1]["boxes"][3]
    box[key] = "add" if key == "name" else box[key] + (1 if key == "count" else 10 * US)
    with pytest.raises(AssertionError):
        compare(lanes, TIMELINES[0])


def stored():
    """Return the timelines in the chapters' outputs."""
    return [
        output.data["text/html"]
        for path in sorted((ROOT / "chapters").glob("*.ipynb"))
        for cell in nbformat.read(path, 4).cells
        for output in cell.get("outputs", [])
        if output.get("data", {}).get("text/html", "").startswith('<div class="d2l-tl"')
    ]


def test_every_timeline_of_the_chapters_is_read(tab):
    show(tab, page(stored()), 390)
    assert tab.ask("document.querySelectorAll('.d2l-tl-live').length") == len(stored()) > 10
    assert tab.ask("messages") == []
    names = tab.ask("[...document.querySelectorAll('[role=application]')].map(e => e.ariaLabel)")
    assert len(set(names)) == len(names)


def test_summary_names_the_busiest_lanes(tab):
    show(tab, page([svg.html(TIMELINES[0])]))
    described = "document.getElementById(document.querySelector('[role=application]')"
    text = tab.ask(described + ".getAttribute('aria-describedby')).textContent")
    assert "Timeline of 18 spans, 1.295 ms (simulated), 3 lanes" in text
    busiest = "The busiest: sim:0 compute: busy 83 percent of the time, 6 spans, mostly matrix"
    assert busiest in text


def test_summary_begins_with_the_sentence_of_the_page(tab):
    says = {"mystnb": {"image": {"alt": "The GPU waits for the host."}}}
    show(tab, page([described(svg.html(TIMELINES[0]), says)]))
    described_by = "document.querySelector('[role=application]').getAttribute('aria-describedby')"
    text = tab.ask(f"document.getElementById({described_by}).textContent")
    assert text.startswith("The GPU waits for the host. Timeline of 18 spans, 1.295 ms")


# What is drawn


def check_drawn(shown):
    """Boxes and ticks stand where the view has their times."""
    per_pixel = (shown["to"] - shown["from"]) / shown["width"]
    for start, end, x, width in shown["drawn"]:
        left, right = ((t - shown["from"]) / per_pixel for t in (start, end))
        assert x == pytest.approx(max(left, -9), abs=0.06)
        right = max(right, left + 0.7)
        assert x + width == pytest.approx(min(right, shown["width"] + 9), abs=0.11)
    places = [(x * per_pixel + shown["from"], float(text)) for x, text in shown["ticks"]]
    assert len(places) >= 2
    units = [value / t for t, value in places if value > 0]
    assert units == pytest.approx([units[0]] * len(units), rel=0.02)
    assert round(math.log10(units[0])) in (0, 3, 6, 9)


def test_whole_timeline_fills_the_width_from_0(opened):
    for number, timeline in enumerate(TIMELINES[:3]):
        shown = state(opened, number)
        assert shown["from"] == 0
        assert shown["to"] == pytest.approx(timeline.end - timeline.start, rel=1e-5)
        assert shown["ticks"][0][0] == 0
        assert float(shown["ticks"][0][1]) == 0
        check_drawn(shown)
        room = opened.ask("document.querySelector('.d2l-tl').clientWidth")
        names = 0 if room < 520 else 120
        assert shown["width"] == room - names


def test_lane_names_stand_above_the_lanes_on_phones(tab):
    for width in (390, 1280):
        show(tab, page([svg.html(TIMELINES[0])]), width)
        shown = tab.ask(
            "[...document.querySelectorAll('.d2l-tl-scroll .d2l-tl-text')].map(e => e.textContent)"
        )
        assert ("sim:0 compute" in shown) == (width == 390)
        beside = tab.ask(
            "document.querySelector('.d2l-tl-body > svg').getBoundingClientRect().width"
        )
        assert (beside == 0) == (width == 390)


# Zoom, pan, keys


def test_buttons_zoom_and_move(opened):
    whole = state(opened)
    for name in ("Zoom in", "Zoom in", "Earlier"):
        opened.ask(f"document.querySelector('.d2l-tl [title=\"{name}\"]').click()")
    shown = state(opened)
    assert shown["to"] - shown["from"] == pytest.approx(whole["all"] / 4)
    assert shown["from"] == pytest.approx(whole["all"] * (0.375 - 0.1))
    check_drawn(shown)
    opened.ask("document.querySelector('.d2l-tl [title=\"Show all\"]').click()")
    assert state(opened)["drawn"] == whole["drawn"]


def test_wheel_zooms_with_ctrl_only(opened):
    moment = 0.25 * state(opened)["all"]
    x, y = place(opened, 0, moment, 0)
    mouse(opened, "mouseWheel", x, y, deltaX=0, deltaY=-200)
    assert state(opened)["from"] == 0
    mouse(opened, "mouseWheel", x, y, deltaX=0, deltaY=-200, modifiers=2)
    opened.wait("document.querySelector('.d2l-tl').d2l.from > 0", 20)
    shown = state(opened)
    assert shown["to"] - shown["from"] < 0.5 * shown["all"]
    there = shown["from"] + 0.25 * (shown["to"] - shown["from"])
    assert there == pytest.approx(moment, rel=0.02)  # what is under the pointer stays
    check_drawn(shown)


def test_dragging_pans(tab):
    show(tab, page([svg.html(TIMELINES[0])]))
    tab.ask("document.querySelector('.d2l-tl').d2l.zoom(4)")
    before = state(tab)
    x, y = place(tab, 0, (before["from"] + before["to"]) / 2, 0)
    mouse(tab, "mousePressed", x, y, button="left", clickCount=1)
    for step in range(1, 6):
        mouse(tab, "mouseMoved", x + 20 * step, y, button="left", buttons=1)
    mouse(tab, "mouseReleased", x + 100, y, button="left", clickCount=1)
    after = state(tab)
    moved = 100 / before["width"] * (before["to"] - before["from"])
    assert before["from"] - after["from"] == pytest.approx(moved, rel=0.01)
    assert after["to"] - after["from"] == pytest.approx(before["to"] - before["from"])
    check_drawn(after)


def test_pinch_zooms_and_a_finger_pans(tab):
    show(tab, page([svg.html(TIMELINES[0])]), 390)
    x, y = place(tab, 0, TIMELINES[0].end / 2, 1)
    touch(tab, "touchStart", (x - 20, y), (x + 20, y))
    for step in range(1, 11):
        touch(tab, "touchMove", (x - 20 - 4 * step, y), (x + 20 + 4 * step, y))
    touch(tab, "touchEnd")
    zoomed = state(tab)
    assert zoomed["to"] - zoomed["from"] == pytest.approx(zoomed["all"] / 3, rel=0.05)
    touch(tab, "touchStart", (x, y))
    for step in range(1, 11):
        touch(tab, "touchMove", (x + 8 * step, y))
    touch(tab, "touchEnd")
    panned = state(tab)
    assert panned["from"] < zoomed["from"] - 0.1 * (zoomed["to"] - zoomed["from"])
    check_drawn(panned)


def test_arrow_keys_walk_over_all_spans_of_a_lane(opened):
    focus(opened)
    press(opened, "ArrowDown")
    press(opened, "ArrowDown")
    for number in range(1, 7):
        shown = state(opened)
        spans = [s for s in TIMELINES[0].spans if s.engine == "compute"]
        name, lane, when = shown["tip"].split("\n")[:3]
        assert (name, lane) == ("mm", "sim:0 compute · matrix product")
        start = svg.quantity(spans[number - 1].start, "s")
        assert when == f"starts at {start}, lasts 180 µs"
        assert f"{start}, lasts 180 µs" in shown["said"]
        assert shown["said"].endswith(f"{number} of 6 in this lane")
        press(opened, "ArrowRight")
    assert state(opened)["said"].endswith("6 of 6 in this lane")  # there is no further one
    press(opened, "ArrowDown")
    assert "sim:0 d2h" in state(opened)["said"]
    press(opened, "Home")
    assert "1 of 6" in state(opened)["said"]
    press(opened, "Escape")
    assert state(opened)["tip"] == ""


def test_keys_zoom_and_move_the_view(opened):
    focus(opened)
    press(opened, "+")
    press(opened, "+")
    shown = state(opened)
    assert shown["to"] - shown["from"] == pytest.approx(shown["all"] / 4)
    press(opened, "ArrowRight", modifiers=8)
    assert state(opened)["from"] > shown["from"]
    press(opened, "-")
    press(opened, "0")
    assert (state(opened)["from"], state(opened)["to"]) == (0, shown["all"])
    press(opened, "End") or press(opened, "ArrowDown")
    press(opened, "Enter")
    shown = state(opened)
    assert shown["to"] - shown["from"] < shown["all"]
    assert shown["tip"]
    check_drawn(shown)
    press(opened, "0")
    for _ in range(12):  # it ends somewhere
        press(opened, "+")
    shown = state(opened)
    assert shown["to"] - shown["from"] == pytest.approx(shown["all"] / 100)
    check_drawn(shown)


def test_a_key_lists_the_keys(opened):
    focus(opened)
    press(opened, "?")
    assert state(opened)["tip"].startswith("Keys")
    assert "Enter: zoom to the span" in state(opened)["tip"]
    opened.ask("dispatchEvent(new Event('scroll'))")
    press(opened, "Escape")
    assert state(opened)["tip"] == ""


def test_a_note_names_the_buttons_that_are_there(tab):
    note = f'<div class="d2l-tl-note">{svg._NOTE}</div>'
    show(tab, page([svg.html(TIMELINES[0]).removesuffix("</div>") + note + "</div>"]))
    said = tab.ask("document.querySelector('.d2l-tl-note').textContent")
    assert ".between" not in said
    assert "zoom in with +" in said


def test_a_page_in_another_language_has_no_word_of_english(tab):
    """Every word goes through `say`, which marks it here; numbers have a comma."""
    note = f'<div class="d2l-tl-note">{svg._NOTE}</div>'
    marking = (
        "document.documentElement.lang = 'tr'; window.say = (text, values = {}) =>"
        "  '~' + text.replace(/[{](\\w+)[}]/g, (_, name) => values[name]);"
    )
    drawn = svg.html(TIMELINES[0]).removesuffix("</div>") + note + "</div>"
    show(tab, page([f"<script>{marking}</script>{drawn}"]))
    around = ".d2l-tl-legend > span, .d2l-tl-note, .d2l-tl-body > svg > text:last-of-type"
    said = tab.ask(f"[...document.querySelectorAll('{around}')].map(e => e.textContent.trim())")
    assert said
    assert all(text.startswith("~") for text in said), said
    focus(tab)
    press(tab, "ArrowRight")
    tip = state(tab)["tip"]
    assert "~starts at" in tip
    assert "," in tip
    assert "." not in tip.partition("~starts")[2]
    label = tab.ask("document.querySelector('.d2l-tl-scroll').ariaLabel")
    assert label.startswith("~Timeline 1: ~18 spans, 1,295 ms")


def test_the_script_has_words_for_every_kind():
    words = (widget.SCRIPTS / "names.js").read_text(encoding="utf-8")
    known = {*kinds._FIXED, *kinds._BY_ENGINE.values(), kinds.OTHER}
    known |= {kind for kind, _ in kinds._PATTERNS}
    assert [kind for kind in sorted(known) if f'say("{kind}")' not in words] == []


# Read-outs


def test_pointer_shows_a_read_out_and_a_cursor(tab):
    show(tab, page([svg.html(TIMELINES[0])]))
    mouse(tab, "mouseMoved", *place(tab, 0, 300 * US, 2))
    shown = state(tab)
    assert shown["tip"].split("\n")[:3] == [
        "copy sim:0 -> cpu", "sim:0 d2h · copy to host", "starts at 195 µs, lasts 150 µs",
    ]  # fmt: skip
    assert float(shown["cursor"]) == pytest.approx(0.3, abs=0.002)  # on the axis, milliseconds
    line = tab.ask("document.querySelector('.d2l-tl-cursor').getBBox().height")
    lanes = tab.ask("document.querySelector('.d2l-tl-boxes').getBBox().height")
    assert line >= lanes  # through all lanes
    mouse(tab, "mouseMoved", 1200, 800)
    assert (state(tab)["tip"], state(tab)["cursor"]) == ("", "")


def test_a_tap_shows_a_read_out_that_stays(tab):
    show(tab, page([svg.html(TIMELINES[0])]), 390)
    x, y = place(tab, 0, 300 * US, 2)
    touch(tab, "touchStart", (x, y))
    touch(tab, "touchEnd")
    assert "starts at 195 µs, lasts 150 µs" in state(tab)["tip"]
    inside = tab.ask(
        "(() => { const f = document.querySelector('.d2l-tl-tip').getBoundingClientRect();"
        "return f.left >= 0 && f.right <= innerWidth && f.top >= 0 && f.bottom <= innerHeight })()"
    )
    assert inside


def test_a_read_out_is_not_cut_off_by_what_scrolls(tab):
    show(tab, page(['<div id="out" style="overflow-x:auto">', svg.html(TIMELINES[3]), "</div>"]))
    focus(tab)
    press(tab, "ArrowRight")
    assert state(tab)["tip"]
    heights = tab.ask("[document.all.out.scrollHeight, document.all.out.clientHeight]")
    assert heights[0] == heights[1]
    seen = """(() => {
        const f = document.querySelector('.d2l-tl-tip').getBoundingClientRect();
        const box = document.querySelector('.d2l-tl-mark').getBoundingClientRect();
        return [f.top - box.bottom, f.height, f.bottom - innerHeight];
    })()"""
    distance, height, below = tab.ask(seen)
    assert 0 < distance < 10
    assert height > 30
    assert below < 0


def test_a_timeline_in_a_fold_is_drawn_when_it_is_opened(tab):
    show(tab, page(["<details><summary>more</summary>", svg.html(TIMELINES[0]), "</details>"]))
    tab.ask("document.querySelector('details').open = true")
    tab.wait("document.querySelectorAll('.d2l-tl-scroll .d2l-tl-grid').length > 3", 20)
    check_drawn(state(tab))


def test_focus_goes_through_buttons_then_the_picture(tab):
    show(tab, page(map(svg.html, TIMELINES[:2])))
    tab.ask("document.body.tabIndex = -1; document.body.focus()")
    found = []
    for _ in range(12):
        press(tab, "Tab", code="Tab", windowsVirtualKeyCode=9)
        found.append(tab.ask("document.activeElement.ariaLabel"))
    buttons = ["Zoom in", "Zoom out", "Earlier", "Later", "All: show the whole timeline"]
    titles = ["Timeline 1: 18 spans, 1.295 ms (simulated)", found[-1]]
    assert found == [*buttons, titles[0], *buttons, titles[1]]
    assert titles[1].startswith("Timeline 2: 210 spans")


def test_without_scripts_the_drawing_stays(tab):
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        show(tab, page([svg.html(TIMELINES[0])]))
        assert tab.ask("document.querySelectorAll('.d2l-tl-live, .d2l-tl button').length") == 0
        assert tab.ask("document.querySelectorAll('.d2l-tl-boxes title').length") == BOXES_OF_FIRST
        width = tab.ask(
            "document.querySelector('.d2l-tl-scroll svg').getBoundingClientRect().width"
        )
        assert width == PLOT
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)


def test_a_drawing_that_is_not_understood_stays_as_it_is(tab):
    strange = svg.html(TIMELINES[0]).replace("Timeline of 18 spans", "Eighteen spans")
    show(tab, page([strange, svg.html(TIMELINES[0])]))
    assert tab.ask("document.querySelectorAll('.d2l-tl-live').length") == 1
    assert len(tab.ask("messages")) == 1
    assert tab.ask("document.querySelectorAll('.d2l-tl-boxes title').length") == BOXES_OF_FIRST


def test_paper_shows_the_whole_timeline(tab):
    show(tab, page([svg.html(TIMELINES[0])]))
    tab.ask("window.widget = document.querySelector('.d2l-tl').d2l; widget.zoom(4)")
    on_screen = state(tab)["width"]
    tab.ask("dispatchEvent(new Event('beforeprint')); widget.later()")
    tab.ask("new Promise((done) => requestAnimationFrame(done))", awaitPromise=True)
    shown = state(tab)  # also after what was to be drawn for the screen
    assert (shown["from"], shown["to"]) == (0, shown["all"])
    assert shown["width"] <= 560
    tab.ask("dispatchEvent(new Event('afterprint'))")
    assert state(tab)["width"] == on_screen > 560


def test_the_page_of_the_launcher_is_explorable(tab, tmp_path):
    class Steps:
        def durations(self):
            return []

    path = tmp_path / "out.html"
    launcher_page.write(path, TIMELINES[0].spans, Steps(), "two ranks\nfast")
    show(tab, path.read_text(encoding="utf-8"))
    (lanes,) = tab.ask(BOXES)
    compare(lanes, TIMELINES[0])
    assert tab.ask("messages") == []


def test_the_script_has_all_its_parts():
    parts = {path.stem: path.read_text(encoding="utf-8") for path in widget.SCRIPTS.iterdir()}
    assert set(parts) == set(widget.PARTS), "each file of scripts/, once"
    assert all(text.startswith("/* ") and text.endswith("\n") for text in parts.values())
    assert all(text in widget.script() for text in parts.values())


def test_the_script_can_stand_in_a_page():
    text = widget.script()
    assert "</script" not in text
    assert "<!--" not in text
    assert not any(word in text for word in ("fetch(", "import(", "XMLHttpRequest", "eval("))
    assert len(text.encode()) < 31_000
    assert json.dumps(text)

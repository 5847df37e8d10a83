"""Timelines: windows, busy fractions, figures, Chrome JSON, profiler runs."""

import json
import os
import random
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.paths import PYTHONPATH
from support.timelines import US, overlap
from torch.profiler import ProfilerActivity, profile

from simgpu.clock.span import Span
from simgpu.timeline import Timeline
from simgpu.timeline.kinds import kind_of, looks_of
from simgpu.timeline.layout import MAX_BOXES, MAX_ROWS, PLOT, _ticks


def training(steps):
    """Tiny operations of many kinds on four devices."""
    rng, spans = random.Random(0), []
    names = ["convolution", "add_", "relu", "addmm", "max_pool2d", "cat", "topk", "sort", "gather"]
    for device in range(4):
        t = 0.0
        for _ in range(steps):
            duration = rng.expovariate(1 / 2e-5)
            spans.append(
                Span(f"sim:{device}", "compute", 0, rng.choice(names), t, duration, 10**6, 10**5)
            )
            t += duration * rng.choice((1.0, 1.5))
    return spans


def boxes(svg):
    """Return ``[(title, rect attributes), ...]`` of every box of a figure."""
    root = ET.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    groups = [g for g in root.iter(f"{space}g") if g.find(f"{space}title") is not None]
    return [(g.find(f"{space}title").text, g.find(f"{space}rect").attrib) for g in groups]


# Windows and numbers


def test_window_is_that_of_the_spans():
    timeline = Timeline(overlap())
    assert timeline.start == 0
    assert timeline.end == pytest.approx(1295 * US)
    assert timeline.simulated
    assert len(timeline.spans) == 18


def test_lanes_come_host_first_then_devices_by_number():
    spans = [Span(f"sim:{i}", "d2h", 0, "c", 0, 1) for i in (10, 2)]
    spans += [Span("sim:2", "compute", 0, "mm", 0, 1), Span("host", "sync", 0, "wait", 0, 1)]
    assert list(Timeline(spans).lanes()) == [
        ("host", "sync"),
        ("sim:2", "compute"),
        ("sim:2", "d2h"),
        ("sim:10", "d2h"),
    ]


def test_busy_fractions():
    busy = Timeline(overlap()).busy()
    assert busy["sim:0", "compute"] == pytest.approx(6 * 180 / 1295)
    assert busy["sim:0", "d2h"] == pytest.approx(6 * 150 / 1295)
    assert repr(busy).splitlines()[0].split() == ["device", "engine", "busy"]
    assert f"{6 * 180 / 1295:.3f}" in repr(busy)


def test_busy_counts_overlapping_spans_once():
    spans = [Span("cuda:0", "compute", s, "mm", 0.1 * s, 0.8) for s in range(3)]
    busy = Timeline(spans).busy()["cuda:0", "compute"]
    assert busy == pytest.approx(1.0)
    summed = sum(span.duration for span in spans) / 1.0  # what a naive count would say
    assert summed > 2


def test_busy_counts_only_what_lies_in_the_window():
    spans = [Span("sim:0", "compute", 0, "mm", 0, 1), Span("sim:0", "compute", 0, "mm", 1.5, 1)]
    assert Timeline(spans).between(0.5, 2.0).busy()["sim:0", "compute"] == pytest.approx(1 / 1.5)


def test_between_and_last_zoom():
    timeline = Timeline(overlap())
    zoomed = timeline.between(200 * US, 300 * US)
    assert {(span.engine, span.start) for span in zoomed.spans} == {
        ("compute", 195 * US),
        ("d2h", 195 * US),
    }
    last = timeline.last(100 * US)
    assert (last.start, last.end) == (timeline.end - 100 * US, timeline.end)
    assert [span.engine for span in last.spans] == ["d2h"]
    assert timeline.last(99).start == timeline.start


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Timeline([]), "no spans to show; run something"),
        (lambda: Timeline(overlap()).between(2, 3), r"no span lies between.*runs from 0 s"),
        (lambda: Timeline(overlap()).between(1e-3, 1e-3), "empty; give start < end"),
        (lambda: Timeline(overlap()).between(2e-3, 1e-3), "empty; give start < end"),
        (lambda: Timeline(overlap()).last(0), "seconds is 0"),
        (lambda: Timeline([Span("sim:0", "compute", 0, "mm", 0, -1)]), "no valid time"),
        (lambda: Timeline([Span("sim:0", "compute", 0, "mm", float("nan"), 1)]), "no valid time"),
        (lambda: Timeline.from_profiler([1]), "not a profile"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_spans_without_duration_can_be_drawn():
    timeline = Timeline([Span("sim:0", "compute", 0, "view", 1.0, 0.0)])
    assert timeline.busy()["sim:0", "compute"] == 0
    assert len(boxes(timeline.to_svg())) == 1


def test_repr_is_a_table():
    lines = repr(Timeline(overlap())).splitlines()
    assert lines[0] == "Timeline of 18 spans, 1.295 ms (simulated)"
    assert lines[1].split() == ["device", "engine", "busy", "spans", "most", "time", "in"]
    assert lines[3].split() == ["sim:0", "compute", "0.834", "6", "matrix", "product"]


# The figure


def test_every_span_of_a_roomy_figure_has_a_box_in_place():
    drawn = [box for box in boxes(Timeline(overlap()).to_svg()) if box[0].startswith("mm")]
    assert len(drawn) == 6
    scale = PLOT / 1295
    for i, (title, rect) in enumerate(drawn):
        assert float(rect["x"]) == pytest.approx((5 + 190 * i) * scale, abs=0.06)
        assert float(rect["width"]) == pytest.approx(180 * scale, abs=0.06)
        assert "lasts 180 µs" in title
        assert "2 GFLOP, 12 MB: 11.1 TFLOP/s, 66.7 GB/s" in title


def test_a_side_stream_is_named():
    titles = [title for title, _ in boxes(Timeline(overlap()).to_svg())]
    assert all("stream 1" in title for title in titles if title.startswith("copy"))
    assert not any("stream" in title for title in titles if title.startswith("mm"))
    launch = Timeline([Span("host", "launch", 1, "copy sim:0 -> cpu", 0, 5 * US)])
    assert "\nstream 1<" in launch.to_svg()


def test_tiny_neighbours_of_one_kind_are_joined():
    spans = [Span("sim:0", "compute", 0, "mm", i * US, US) for i in range(37)]
    spans.append(Span("sim:0", "d2h", 0, "copy sim:0 -> cpu", 37 * US, 10e-3))
    titles = [title for title, _ in boxes(Timeline(spans).to_svg())]
    assert titles[0].startswith("37 x mm\nat 0 s, lasts 37 µs")
    assert len(titles) == 2


def test_wide_neighbours_of_one_kind_stay_apart():
    spans = [Span("sim:0", "compute", 0, "mm", i * US, US) for i in range(50)]
    assert len(boxes(Timeline(spans).to_svg())) == 50


@pytest.mark.parametrize(("count", "rows"), [(3, 3), (MAX_ROWS, MAX_ROWS), (20, MAX_ROWS)])
def test_overlapping_spans_get_rows_of_their_own(count, rows):
    spans = [Span("cuda:0", "compute", s, "mm", 0.01 * s, 1) for s in range(count)]
    drawn = boxes(Timeline(spans).to_svg())
    assert len({rect["y"] for _, rect in drawn}) == rows


def test_a_rounding_error_is_no_overlap():
    spans, t = [], 0.0
    for _ in range(20):
        spans.append(Span("sim:0", "compute", 0, "mm", t, 0.1))
        t += 0.1
    spans = [Span(s.device, s.engine, 0, s.name, s.start - 1e-16, s.duration) for s in spans]
    assert len({rect["y"] for _, rect in boxes(Timeline(spans).to_svg())}) == 1


def test_boxes_stay_inside_the_window():
    svg = Timeline(overlap()).between(100 * US, 500 * US).to_svg()
    for _, rect in boxes(svg):
        assert float(rect["x"]) >= 0
        assert float(rect["x"]) + float(rect["width"]) <= PLOT + 0.8


@pytest.mark.slow
@pytest.mark.parametrize("steps", [10, 5000])
def test_figures_stay_small(steps):
    timeline = Timeline(training(steps))
    assert len(boxes(timeline.to_svg())) <= MAX_BOXES
    assert len(timeline._repr_html_().encode()) < 100_000


@pytest.mark.slow
def test_joining_loses_no_time():
    timeline = Timeline(training(2000))
    lasts = re.findall(r"lasts ([\d.]+) (.?)s", timeline.to_svg())
    total = sum(float(number) * {"µ": 1e-6, "m": 1e-3, "": 1}[unit] for number, unit in lasts)
    assert total == pytest.approx(sum(span.duration for span in timeline.spans), rel=0.01)


@pytest.mark.parametrize("length", [4e-4, 1e-6, 2e-5, 0.4, 39.99, 7.0, 1e-9])
def test_the_axis_has_a_few_round_ticks_from_0_on(length):
    ticks = _ticks(length * 1e3)
    assert ticks[0][0] == float(ticks[0][1]) == 0
    assert 3 <= len(ticks) <= 11
    assert len({label for _, label in ticks}) == len(ticks)
    assert all(-1e-6 <= x <= PLOT + 0.02 for x, _ in ticks)


def test_a_figure_does_not_depend_on_when_its_window_began():
    later = [replace(span, start=span.start + 812.0) for span in training(3)]
    shifted = Timeline(later)._repr_html_()
    assert re.findall(r"<title>(.*?)\n", shifted) == re.findall(
        r"<title>(.*?)\n", Timeline(training(3))._repr_html_()
    )
    assert "at 0 " in shifted
    assert "at 812" not in shifted


def test_html_is_well_formed_and_says_it_is_simulated():
    html = Timeline(overlap())._repr_html_()
    ET.fromstring(html)
    assert "simulated time (ms)" in html
    real = [Span("cuda:0", "compute", 7, "mm", 0, 1)]
    assert "simulated" not in Timeline(real)._repr_html_()


def test_names_are_escaped():
    spans = [Span("cuda:0", "compute", 0, "void f<float, A&B>(int)", 0, 1)]
    assert boxes(Timeline(spans).to_svg())[0][0].startswith("void f<float, A&B>(int)")
    ET.fromstring(Timeline(spans)._repr_html_())


def test_kinds_differ_in_colour_and_hatching():
    looks = looks_of(training(100) + overlap())
    assert len(set(looks.values())) == len(looks)
    hatches = {}
    for look in looks.values():
        hatches.setdefault(look.fill, []).append(look.hatch)
    for used in hatches.values():  # what shares a colour differs in hatching
        assert len(set(used)) == len(used)


def test_a_kind_looks_the_same_in_every_figure():
    first, second = looks_of(training(50)), looks_of(overlap())
    assert first["matrix product"] == second["matrix product"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mm", "matrix product"),
        ("aten::addmm", "matrix product"),
        ("AddmmBackward0", "matrix product"),
        ("ampere_sgemm_128x64_tn", "matrix product"),
        ("convolution_backward", "convolution"),
        ("void cudnn::winograd_nonfused::winogradForwardData4x4<float>()", "convolution"),
        ("relu_", "element by element"),
        ("ReluBackward0", "element by element"),
        ("_foreach_add_", "element by element"),
        ("ones_like", "element by element"),
        ("void at::native::elementwise_kernel<128, 2>(int)", "element by element"),
        ("native_batch_norm", "reduce, pool, normalise"),
        ("max_pool2d_with_indices", "reduce, pool, normalise"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", "collective"),
        ("constant_pad_nd", "pad"),
        ("slice_backward", "pad"),
        ("embedding", "embedding"),
        ("embedding_dense_backward", "embedding"),
        ("clone", "element by element"),
        ("triton_poi_fused_native_layer_norm_mul", "element by element"),
        ("triton_red_fused_add_sum", "reduce, pool, normalise"),
        ("triton_per_fused__softmax_2", "reduce, pool, normalise"),
        ("triton_tem_fused_addmm_relu_1", "matrix product"),
        ("fsdp::split_with_sizes_copy", "cut or join"),
        ("_chunk_cat", "cut or join"),
        ("my own step", "my own step"),
    ],
)
def test_kinds_of_operations(name, kind):
    assert kind_of(Span("cuda:0", "compute", 0, name, 0, 1)) == kind


def test_many_kinds_of_unknown_operations_share_the_last_look():
    spans = [Span("sim:0", "compute", 0, f"step {i}", i, 1) for i in range(30)]
    assert "other" in looks_of(spans)
    ET.fromstring(Timeline(spans)._repr_html_())


@pytest.mark.process
def test_the_figure_is_the_same_in_another_process():
    code = (
        "import sys; from test_timeline import overlap, training;"
        "from simgpu.timeline import Timeline;"
        "sys.stdout.buffer.write(Timeline(overlap() + training(300))._repr_html_().encode())"
    )
    # Another hash seed, hence another order of sets.
    path = f"{Path(__file__).parent}{os.pathsep}{PYTHONPATH}"
    env = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": path}
    other = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    assert other.stdout.decode() == Timeline(overlap() + training(300))._repr_html_()


def test_ids_differ_between_figures():
    def ids(timeline):
        return set(re.findall(r'id="([^"]+)"', timeline._repr_html_()))

    assert not ids(Timeline(overlap())) & ids(Timeline(training(10)))


def test_to_svg_writes_what_it_returns(tmp_path):
    text = Timeline(overlap()).to_svg(tmp_path / "t.svg")
    assert (tmp_path / "t.svg").read_text(encoding="utf-8") == text


# Chrome JSON


def test_chrome_json_is_valid_and_comes_back(tmp_path):
    timeline = Timeline(overlap())
    timeline.to_chrome(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    complete = [event for event in events if event["ph"] == "X"]
    names = {(e["name"], e["args"]["name"]) for e in events if e["ph"] == "M"}
    assert ("process_name", "sim:0") in names
    assert ("thread_name", "d2h, stream 1") in names
    assert complete[0]["ts"] == 0
    assert complete[0]["dur"] == pytest.approx(5)  # microseconds
    assert all(isinstance(e["pid"], int) and isinstance(e["tid"], int) for e in events)
    again = Timeline.from_chrome(tmp_path / "trace.json")
    assert again._repr_html_() == timeline._repr_html_()
    for old, new in zip(timeline.spans, again.spans, strict=True):
        assert (old.device, old.engine, old.stream, old.name) == (
            new.device, new.engine, new.stream, new.name,
        )  # fmt: skip
        assert new.start == pytest.approx(old.start)
        assert (new.flops, new.bytes) == (old.flops, old.bytes)


@pytest.fixture(scope="module")
def finished_profile():
    x = torch.randn(64, 64, requires_grad=True)
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        (x @ x).relu().sum().backward()
    return prof, Timeline.from_profiler(prof)


def test_a_profile_on_the_cpu(finished_profile):
    _, timeline = finished_profile
    assert set(timeline.lanes()) == {("host", "cpu")}
    names = [span.name for span in timeline.spans]
    assert "aten::matmul" in names
    assert "aten::mm" not in names  # runs inside aten::matmul
    assert timeline.start == 0
    assert not timeline.simulated
    assert 0 < timeline.busy()["host", "cpu"] <= 1
    ET.fromstring(timeline._repr_html_())


def test_a_profile_can_be_read_once(finished_profile):
    prof, _ = finished_profile
    with pytest.raises(ValueError, match="from_chrome"):
        Timeline.from_profiler(prof)


def test_an_unfinished_profile_is_refused():
    with pytest.raises(ValueError, match="leave its `with` block"):
        Timeline.from_profiler(profile(activities=[ProfilerActivity.CPU]))

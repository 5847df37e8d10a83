"""Records: the stored ones are valid, broken ones are refused, the page shows what they say."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.benchmark_data import example_record, side
from support.chart_faults import faults

from benchmarks import charts, page, records, report
from benchmarks.measure import Row
from benchmarks.records import Record
from simgpu.units import size

NAME = "2026-01-31-1234-example-cpu-2-00ghz-2-cores.json"


def test_stored_records_are_valid():
    assert records.main(["--check"]) == 0
    assert records.read_all()[0]


def test_stored_page_is_what_the_records_give():
    assert page.stale() == [], "run python -m benchmarks.page"


def test_record_comes_back_from_json():
    record = example_record()
    assert Record.from_dict(json.loads(records.to_json(record))) == record


def test_nothing_that_follows_from_samples_is_stored():
    row = example_record().rows[0]
    assert set(row.to_dict()) == {"benchmark", "case", "unit", "ours", "peer", "goal", "note"}
    assert row.to_dict()["ours"] == {"label": "ours", "samples": row.ours.samples}


def test_format_1_gives_its_samples_and_nothing_else():
    path = records.FOLDER / "2026-11-21-0146-amd-epyc-2-cores.json"
    old, new = json.loads(path.read_text()), records.read(path)
    assert len(new.rows) == len(old["rows"])
    limits = {}
    for then, now in zip(old["rows"], new.rows, strict=True):
        giga = 1e9 if then["unit"] in ("GB/s", "GFLOP/s") else 1
        assert now.ours.samples == tuple(giga * value for value in then["ours"]["samples"])
        assert now.ours.median == pytest.approx(giga * then["ours"]["median"])
        if now.peer:
            assert now.ratio == pytest.approx(then["ratio"])
        elif then["peer"]:
            limits[now.case] = now.limit
    assert limits == {
        "bytes moved": None,  # the copy was not measured in turns with it
        "overhead of one operation, median over 15": 60e-6,
        "ResNet-18, a step of 256 images a device, 8 devices, shapes only": 1.0,
    }
    for change in (lambda d: d.pop("rows"), lambda d: d["rows"][0].update(ours=3)):
        broken = json.loads(path.read_text())
        change(broken)
        with pytest.raises(ValueError, match="a field of format 1 is missing or wrong"):
            Record.from_dict(broken)
    with pytest.raises(ValueError, match="a quick run measures nothing"):
        Record.from_dict(old | {"quick": True})


def drop(*path):
    def change(data):
        for key in path[:-1]:
            data = data[key]
        del data[path[-1]]

    return change


def put(value, *path):
    def change(data):
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


def keep_the_best(data):
    for name in ("ours", "peer"):
        data["rows"][0][name]["samples"] = sorted(data["rows"][0][name]["samples"])[:3]


CPU, SAMPLE = ("hardware", "cpu"), ("rows", 0, "ours", "samples", 0)
BROKEN = [
    (put("d2lmini benchmarks 3", "format"), "'d2lmini benchmarks 2' was expected"),
    (drop("hardware"), "'hardware' is a required property"),
    (drop("hardware", "gpus"), "'gpus' is a required property"),
    (drop("versions", "torch"), "'torch' is a required property"),
    (put("abc", "commit"), "does not match"),
    (put("yesterday", "date"), "does not match"),
    (put("2026-01-31T12:34:56", "date"), "does not match"),
    (put("2026-02-31T12:34:56+00:00", "date"), "is not a date"),
    (put("2026-02-01T12:34:56+00:00", "date"), "should be called 2026-02-01-1234-"),
    (put("Other", *CPU), "should be called 2026-01-31-1234-other-2-cores"),
    (put("two\nlines", *CPU), "does not match"),
    (put("a line\n", *CPU), "does not match"),
    (put("tricks \u202e", *CPU), "does not match"),
    (put("half \ud800", *CPU), "does not match"),
    (put(500 * "long", *CPU), "is too long"),
    (put(3, *CPU), "is not of type 'string'"),
    (put([], "rows"), "non-empty"),
    (put("ms", "rows", 0, "unit"), "'ms' is not one of"),
    (put(2.5, "rows", 0, "ours", "median"), "Additional properties"),
    (put("fast", *SAMPLE), "is not of type 'number'"),
    (put(0, *SAMPLE), "less than the minimum"),
    (put(float("inf"), *SAMPLE), "Infinity is no number"),
    (put(float("nan"), *SAMPLE), "NaN is no number"),
    (put(10**400, *SAMPLE), "greater than the maximum"),
    (drop("rows", 0, "peer"), "needs a peer"),
    (put(1, "extra"), "Additional properties"),
    (drop(*SAMPLE), "4 samples against 5"),
    (lambda data: data["rows"].append(data["rows"][0]), "is there twice"),
    (keep_the_best, "3 samples, at least 5 are needed"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN, ids=range(len(BROKEN)))
def test_broken_record_is_refused_and_does_not_stop_the_page(change, message, tmp_path, capsys):
    data = json.loads(records.to_json(example_record()))
    change(data)
    (tmp_path / NAME).write_text(json.dumps(data))
    assert records.main(["--check", str(tmp_path)]) == 1
    assert message in capsys.readouterr().out
    assert f"No record: {NAME}, " in page.render(*records.read_all(tmp_path))[page.PAGE]


@pytest.mark.parametrize("text", ['{"format": ', "[" * 100_000, "3", '{"rows": 1e999}', "\ud800"])
def test_file_that_is_no_record_is_refused(text, tmp_path, capsys):
    (tmp_path / NAME).write_text(text, errors="surrogatepass")
    assert records.main(["--check", str(tmp_path)]) == 1
    assert NAME in capsys.readouterr().out


def test_records_are_kept_under_their_name_and_never_overwritten(tmp_path):
    path = records.save(example_record(), tmp_path)
    assert path.name == NAME
    assert records.read_all(tmp_path) == ({path: example_record()}, {})
    with pytest.raises(FileExistsError):
        records.save(example_record(), tmp_path)


def test_run_of_another_machine_is_added_under_its_name(tmp_path, capsys):
    (tmp_path / "run.json").write_text(records.to_json(example_record()))
    folder = tmp_path / "records"
    folder.mkdir()
    assert records.main(["--add", str(tmp_path / "run.json"), str(folder)]) == 0
    assert [path.name for path in folder.iterdir()] == [NAME]
    assert "benchmarks.page" in capsys.readouterr().out


def on_gpus(record):
    gpus = [{"name": "NVIDIA V100", "memory": 1}] * 2
    return replace(record, hardware={**record.hardware, "gpus": gpus})


def test_gpus_are_named_and_tell_machines_apart():
    record = on_gpus(example_record())
    assert record.name.startswith("2 x NVIDIA V100, Example CPU")
    assert record.machine != example_record().machine


# The page


@pytest.fixture(scope="module")
def files():
    old = example_record(date="2026-01-30T12:34:56+00:00")
    paths = (Path("2026-01-30-1234-old.json"), Path(NAME))
    return page.render(dict(zip(paths, (old, example_record()), strict=True)), {})


def test_page_shows_figures_provenance_and_old_records(files):
    text = re.sub(" +", " ", files[page.PAGE])
    assert "| one epoch | 5 s (4.75 to 5.25) | d2l: 8 s (7.6 to 8.4) | 1.6 (goal 1.3 r" in text
    assert "| 90 (goal 100 missed) |" in text
    assert "| 20 µs (19 to 21) | limit 60 µs: kept | |" in text
    assert "| page intro.html | 123 kB |\n" in text
    assert "torch 2.13.0; commit 0123456789; 2026-01-31 12:34 UTC; 5 repetitions." in text
    assert "Note: why." in text
    assert text.count("\n## ") == 3, "one machine, what is missing, and the list"
    assert "records/2026-01-30-1234-old.json" in text


def test_page_says_what_was_not_measured():
    record, missing = example_record(), "No machine with a GPU"
    assert "Nothing has been recorded yet." in page.render({}, {})[page.PAGE]
    assert missing in page.render({Path(NAME): record}, {})[page.PAGE]
    assert missing not in page.render({Path(NAME): on_gpus(record)}, {})[page.PAGE]


def test_chart_of_ratios_leaves_out_long_lists(files):
    image = next(text for name, text in files.items() if name.endswith("-ratios.svg"))
    assert "lenet: one epoch" in image
    assert "operation 3" not in image
    assert "operation 3" in files[page.PAGE]


def test_stale_page_and_charts_are_found(tmp_path):
    (tmp_path / "records").mkdir()
    records.save(example_record(), tmp_path / "records")
    page.write(tmp_path)
    assert page.stale(tmp_path) == []
    (tmp_path / page.PAGE).write_text("5 s, we believe")
    (tmp_path / page.IMAGES / "left-over.svg").write_text("<svg/>")
    image = next((tmp_path / page.IMAGES).glob("2026*ratios.svg"))
    image.unlink()
    wrong = {page.PAGE, f"{page.IMAGES}/left-over.svg", f"{page.IMAGES}/{image.name}"}
    assert set(page.stale(tmp_path)) == wrong
    page.write(tmp_path)
    assert page.stale(tmp_path) == []


def test_a_single_size_is_not_drawn():
    rows = [row for row in example_record().rows if row.x in (None, 4096)]
    found = page.render({Path(NAME): example_record(rows=rows)}, {})
    assert len(found) == 2, "the page, and the ratios"


# The charts


def sizes(*factors):
    rows = [row for row in example_record().rows if row.x]
    scaled = [
        replace(row, ours=side(row.ours.label, 1e-4 * factors[i % len(factors)], 0.01), peer=None)
        for i, row in enumerate(rows)
    ]
    return charts.lines(scaled, "tensor size", size)


@pytest.mark.parametrize("high", [1, 1.01, 3, 40, 1e5])
def test_charts_of_any_range_have_ticks_that_can_be_read(high):
    figure = sizes(1, high)
    assert faults(figure) == []
    assert len(figure.axes[0].get_yticks()) >= 2
    rows = [Row("b", "c", "s", side("a", 1), side("b", high)), example_record().rows[1]]
    assert faults(charts.ratios(rows)) == []


def test_text_that_cannot_be_read_would_be_found():
    figure = sizes(1, 3)
    for place in ((0.5, -0.12), (0.99, 0.5)):
        figure.axes[0].annotate("a line in the way", place, xycoords="axes fraction")
    assert any("overlaps" in fault for fault in faults(figure))
    assert any("leaves the chart" in fault for fault in faults(figure))


def test_charts_can_be_read_on_a_telephone_and_on_dark_pages(files):
    assert charts.FONT * 360 / (72 * charts.WIDTH) >= 11, "px at a width of 360"
    for name, text in files.items():
        if name.endswith(".svg"):
            assert files[page.PAGE].count(name) == 1
            assert "fill: #ffffff" in text.lower().partition("axes_1")[0], "needed in dark mode"
            assert "<text" in text, "letters stay letters"
            assert page.render({Path(NAME): example_record()}, {})[name] == text


def test_dots_and_bars_are_where_the_ratios_are():
    row = example_record().rows[0]
    axes = charts.ratios([row]).axes[0]
    (dots,) = (line.get_xdata() for line in axes.lines if line.get_marker() == "o")
    assert list(dots) == [row.ratio]
    segments = [segment for lines in axes.collections for segment in lines.get_segments()]
    spans = {(segment[0][0], segment[-1][0]) for segment in segments}
    assert spans == {(1, 1), (row.goal, row.goal), (min(row.ratios), max(row.ratios))}


# The comparison


def slowed(factor, number=0, name="ours"):
    rows = example_record().rows
    old = getattr(rows[number], name)
    new = replace(old, samples=[factor * value for value in old.samples])
    rows[number] = replace(rows[number], **{name: new})
    return example_record(rows=rows)


def test_slower_beyond_the_spread_is_reported():
    found = report.slower(slowed(1.2), example_record())
    assert len(found) == 1
    assert "lenet / one epoch / ours: was 5 s (4.75 to 5.25), now 6 s (5.7 to 6.3) (+20%)" in found


def test_a_lower_rate_is_slower():
    assert len(report.slower(slowed(0.8, 1), example_record())) == 1
    assert report.slower(slowed(1.2, 1), example_record()) == []


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.08])
def test_faster_equal_or_within_the_spread_is_not_reported(factor):
    assert report.slower(slowed(factor), example_record()) == []


def test_a_slower_peer_is_not_our_concern():
    assert report.slower(slowed(2, name="peer"), example_record()) == []


def test_rows_of_one_run_only_are_not_compared():
    old = example_record()
    assert report.slower(slowed(2), replace(old, rows=old.rows[1:])) == []

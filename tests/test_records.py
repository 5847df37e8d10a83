"""Records: the stored ones are valid, broken ones are refused, the page shows what they say."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmark_data import example_record  # noqa: E402
from test_figures import faults  # noqa: E402

from benchmarks import page, plots, records, report  # noqa: E402

NAME = "2026-01-31-1234-example-cpu-2-00ghz-2-cores.json"


def test_stored_records_are_valid():
    assert records.check_folder() == []


def test_stored_page_is_what_the_records_give():
    assert page.stale() == [], "run python -m benchmarks.page"


def test_example_is_valid():
    assert records.check(example_record(), NAME) == []


def drop(*path):
    def change(record):
        for key in path[:-1]:
            record = record[key]
        del record[path[-1]]

    return change


def put(value, *path):
    def change(record):
        for key in path[:-1]:
            record = record[key]
        record[path[-1]] = value

    return change


def shorten(record):
    side = record["rows"][0]["ours"]
    side["samples"] = side["samples"][:3]


def repeat(record):
    record["rows"].append(record["rows"][0])


def forget_the_losses(record):
    """Keep the three best samples of five, with a median and a range that follow from them."""
    for name in ("ours", "peer"):
        side = record["rows"][0][name]
        kept = sorted(side["samples"])[:3]
        side.update(samples=kept, median=kept[1], low=kept[0], high=kept[2])


BROKEN = [
    (drop("hardware"), "'hardware' is a required property"),
    (drop("hardware", "gpus"), "'gpus' is a required property"),
    (drop("versions", "torch"), "'torch' is a required property"),
    (drop("commit"), "'commit' is a required property"),
    (put("abc", "commit"), "does not match"),
    (put("yesterday", "date"), "is not a date"),
    (put("2026-01-31T12:34:56", "date"), "no time zone"),
    (put("2026-02-01T12:34:56+00:00", "date"), "should be called 2026-02-01-1234-"),
    (put("Other", "hardware", "cpu"), "should be called 2026-01-31-1234-other-2-cores"),
    (put(True, "quick"), "a quick run measures nothing"),
    (put(3, "repetitions"), "at least 5 are needed"),
    (put([], "rows"), "non-empty"),
    (put("ms", "rows", 0, "unit"), "'ms' is not one of"),
    (put("fast", "rows", 0, "ours", "median"), "is not of type 'number'"),
    (put(-1.0, "rows", 0, "ours", "samples", 0), "less than the minimum"),
    (put(4.0, "rows", 0, "ours", "median"), "median 4.0 does not follow"),
    (put(4.0, "rows", 0, "peer", "low"), "low 4.0 does not follow"),
    (put(2.0, "rows", 0, "ratio"), "ratio 2.0 does not follow"),
    (put(None, "rows", 0, "peer"), "ratio and peer go together"),
    (put(2.0, "rows", 2, "goal"), "a goal is a ratio"),
    (put(1, "extra"), "Additional properties"),
    (shorten, "samples, at least 5"),
    (repeat, "is there twice"),
    (forget_the_losses, "3 samples, at least 5 are needed"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_broken_record_is_refused(change, message, tmp_path):
    record = json.loads(json.dumps(example_record()))
    change(record)
    assert any(message in problem for problem in records.check(record, NAME))
    (tmp_path / NAME).write_text(json.dumps(record))
    assert records.main(["--check", str(tmp_path)]) == 1


def test_file_that_is_not_json_is_refused(tmp_path, capsys):
    (tmp_path / NAME).write_text('{"format": ')
    assert records.main(["--check", str(tmp_path)]) == 1
    assert "not JSON" in capsys.readouterr().out


def test_calibration_needs_its_provenance():
    provenance = {"hardware": "X", "date": "2026-01-31", "torch": "2", "python": "3", "repeats": 7}
    rows = [{"what": "mm", "seconds": [1.0], "median": 1.0, "spread": 0.0}]
    record = {"format": records.CALIBRATION_FORMAT, "gpu": {}, "link": {}}
    record |= {"provenance": provenance, "measurements": rows}
    assert records.check(record, "calibration-x.json") == []
    del provenance["date"]
    assert "'date' is a required" in records.check(record, "calibration-x.json")[0]


def test_command_checks_the_folder():
    command = [sys.executable, "-m", "benchmarks.records", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "valid" in done.stdout


def test_records_are_kept_under_their_name_and_never_overwritten(tmp_path):
    path = records.save(example_record(), tmp_path)
    assert path.name == NAME
    assert records.load_all(tmp_path) == {path: json.loads(path.read_text())}
    with pytest.raises(FileExistsError):
        records.save(example_record(), tmp_path)


def test_run_of_another_machine_is_added_under_its_name(tmp_path, capsys):
    (tmp_path / "run.json").write_text(json.dumps(example_record()))
    folder = tmp_path / "records"
    folder.mkdir()
    assert records.main(["--add", str(tmp_path / "run.json"), str(folder)]) == 0
    assert [path.name for path in folder.iterdir()] == [NAME]
    assert "benchmarks.page" in capsys.readouterr().out


def test_save_refuses_a_quick_run(tmp_path):
    with pytest.raises(ValueError, match="measures nothing"):
        records.save(example_record(quick=True), tmp_path)
    assert not list(tmp_path.iterdir())


def test_gpus_are_named_and_tell_machines_apart():
    record = json.loads(json.dumps(example_record()))
    record["hardware"]["gpus"] = [{"name": "NVIDIA V100", "memory": 1}] * 2
    assert records.hardware_name(record).startswith("2 x NVIDIA V100, Example CPU")
    assert records.same_hardware(record) != records.same_hardware(example_record())


# The page


@pytest.fixture
def files():
    old = example_record(date="2026-01-30T12:34:56+00:00")
    paths = (Path("2026-01-30-1234-old.json"), Path(NAME))
    return page.render(dict(zip(paths, (old, example_record()), strict=True)))


def test_page_shows_figures_provenance_and_old_records(files):
    text = files[page.PAGE]
    assert "5 s (4.75 to 5.25)" in text
    assert "1.6x (goal 1.3x reached)" in text
    assert "90x (goal 100x missed)" in text
    assert "123 kB" in text
    assert "commit 0123456789" in text
    assert "torch 2.13.0" in text
    assert text.count("\n## ") == 3, "one machine, what is missing, and the list"
    assert "records/2026-01-30-1234-old.json" in text


def test_page_without_records_says_so():
    assert "Nothing has been recorded yet." in page.render({})[page.PAGE]


def test_page_says_that_no_gpu_was_measured_until_one_was():
    record = json.loads(json.dumps(example_record()))
    assert "No machine with a GPU" in page.render({Path(NAME): record})[page.PAGE]
    record["hardware"]["gpus"] = [{"name": "NVIDIA V100", "memory": 1}]
    assert "No machine with a GPU" not in page.render({Path(NAME): record})[page.PAGE]


def test_picture_of_ratios_leaves_out_long_lists(files):
    image = next(text for name, text in files.items() if name.endswith("-ratios.svg"))
    assert "lenet: one epoch" in image
    assert "operation 3" not in image
    assert "operation 3" in files[page.PAGE]


def test_every_figure_of_the_page_is_drawn(files):
    images = [name for name in files if name.endswith(".svg")]
    assert len(images) == 2
    assert all(files[page.PAGE].count(name) == 1 for name in images)


def test_pictures_can_be_read(files):
    for name, text in files.items():
        if name.endswith(".svg"):
            assert faults(text) == [], name
            root = ET.fromstring(text)
            assert root.find("{http://www.w3.org/2000/svg}desc").text


def test_stale_page_and_pictures_are_found(tmp_path):
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


def test_a_single_size_is_not_plotted():
    record = example_record()
    record["rows"] = [row for row in record["rows"] if row["x"] in (None, 4096)]
    assert len(page.render({Path(NAME): record})) == 2, "the page, and the ratios"


@pytest.mark.parametrize("high", [1.01, 3, 40, 1e5])
def test_axes_of_any_range_have_ticks_that_can_be_read(high):
    rows = [row for row in example_record()["rows"] if row["x"] in (4096, 65536)]
    for row, factor in zip(rows, (1, 1, high, high), strict=True):
        for side in filter(None, (row["ours"], row["peer"])):
            for key in ("median", "low", "high"):
                side[key] = 1e-4 * factor
    assert faults(plots.lines(rows, "Two sizes", "size", "B")) == []


# The comparison


def slowed(factor, row=0, key="ours"):
    record = json.loads(json.dumps(example_record()))
    side = record["rows"][row][key]
    side["samples"] = [factor * value for value in side["samples"]]
    for name in ("median", "low", "high"):
        side[name] *= factor
    return record


def test_slower_beyond_the_spread_is_reported():
    found = report.slower(slowed(1.2), example_record())
    assert len(found) == 1
    assert "lenet / one epoch / ours: was 5 s (4.75 to 5.25), now 6 s (5.7 to 6.3) (+20%)" in found


def test_a_lower_rate_is_slower():
    assert len(report.slower(slowed(0.8, row=1), example_record())) == 1
    assert report.slower(slowed(1.2, row=1), example_record()) == []


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.08])
def test_faster_equal_or_within_the_spread_is_not_reported(factor):
    assert report.slower(slowed(factor), example_record()) == []


def test_a_slower_peer_is_not_our_concern():
    assert report.slower(slowed(2, key="peer"), example_record()) == []


def test_rows_of_one_run_only_are_not_compared():
    new, old = slowed(2), example_record()
    old["rows"] = old["rows"][1:]
    assert report.slower(new, old) == []


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.00123, "s", "1.23 ms"),
        (59e-6, "s", "59 µs"),
        (123456, "images/s", "123,000 images/s"),
        (2_500_000, "B", "2.5 MB"),
        (512, "B", "512 B"),
        (1.07, "ratio", "1.07"),
        (0, "count", "0"),
    ],
)
def test_quantities_are_readable(value, unit, text):
    assert report.quantity(value, unit) == text


def test_table_has_every_row_and_note():
    text = report.table(example_record()["rows"])
    assert "one epoch" in text
    assert "d2l: 8 s (7.6 to 8.4)" in text
    assert text.rstrip().endswith("lenet: why")

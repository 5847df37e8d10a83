"""Records: kept as they are, shown on their page as text and charts, compared with newer runs."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
import yaml
from myst_parser.config.main import MdParserConfig
from myst_parser.mdit_to_docutils.base import DocutilsRenderer
from myst_parser.parsers.mdit import create_md_parser
from support.paths import ROOT
from support.samples.benchmark_data import example_record, side
from support.samples.chart_faults import faults

from benchmarks import charts, page, records
from benchmarks.measure import Row
from simgpu.units import size

NAME = "2026-01-31-1234-example-cpu-2-00ghz-2-cores.json"


@pytest.mark.slow
def test_stored_page_and_charts_are_what_the_records_give():
    wanted = page.render(records.read_all())
    stored = {page.PAGE, *(f"{page.IMAGES}/{p.name}" for p in (ROOT / page.IMAGES).glob("*"))}
    assert stored == set(wanted)
    for name, text in wanted.items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, "run python -m benchmarks.page"


def test_records_are_kept_under_their_name_and_never_overwritten(tmp_path):
    path = records.save(example_record(), tmp_path)
    assert path.name == NAME
    assert records.read_all(tmp_path) == [example_record()]
    with pytest.raises(FileExistsError):
        records.save(example_record(), tmp_path)
    path.write_text(path.read_text().replace(records.FORMAT, "d2lmini benchmarks 3"))
    with pytest.raises(ValueError, match=f"{NAME} is not in the format 'd2lmini benchmarks 2'"):
        records.read(path)


def test_nothing_that_follows_from_samples_is_stored():
    row = example_record().rows[0]
    assert set(row.to_dict()) == {"benchmark", "case", "unit", "ours", "peer", "goal", "note"}
    assert row.to_dict()["ours"] == {"label": "ours", "samples": row.ours.samples}


def on_gpus(record):
    gpus = [{"name": "NVIDIA V100", "memory": 1}] * 2
    return replace(record, hardware={**record.hardware, "gpus": gpus})


def test_gpus_are_named_and_tell_machines_apart():
    record = on_gpus(example_record())
    assert record.name.startswith("2 x NVIDIA V100, Example CPU")
    assert record.machine != example_record().machine


# The page


def test_page_shows_figures_provenance_and_old_records(tmp_path):
    (tmp_path / "records").mkdir()
    for day in (30, 31):
        records.save(example_record(date=f"2026-01-{day}T12:34:56+00:00"), tmp_path / "records")
    page.write(tmp_path)
    text = re.sub(" +", " ", (tmp_path / page.PAGE).read_text())
    row = "| one epoch | 5 s (4.75 to 5.25) | d2l: 8 s (7.6 to 8.4) | 1.6 (1.6 to 1.6), goal 1.3 r"
    assert row in text
    assert "| 90 (90 to 90), goal 100 missed |" in text
    assert "| 20 µs (19 to 21) | limit 60 µs: kept | |" in text
    assert "| page intro.html | 123 kB |\n" in text
    assert "torch 2.13.0; commit 0123456789; 2026-01-31 12:34 UTC; 5 repetitions." in text
    assert "Note: why." in text
    assert "## GPUs\n\nNo machine with a GPU" in text
    assert text.count("2026-01-30-1234") == 2, "the older one is in the list alone"
    (image,) = (tmp_path / page.IMAGES).iterdir()
    assert image.name == NAME.replace(".json", "-1.svg")
    assert "fill: #ffffff" in image.read_text().lower().partition("axes_1")[0], "for dark pages"
    assert "<text" in image.read_text(), "letters stay letters"


def test_a_gpu_is_missing_only_where_none_was_measured():
    assert "## GPUs" not in page.render([on_gpus(example_record())])[page.PAGE]


def test_a_single_size_is_not_drawn():
    rows = [row for row in example_record().rows if row.x in (None, 4096)]
    assert list(page.render([example_record(rows=rows)])) == [page.PAGE]


HOSTILE = (
    *("<script>alert(1)</script>", "<!-- ", "&lt;b&gt;", "{raw}`html <b>`", "```{raw} html"),
    *("[x](javascript:alert(1))", "![x](http://x.example/x.png)", "<http://x.example>", "a | b"),
    *("x\\|y", "`", "$x$", "*b* _i_ **b**", "# heading #", "(target)=", "{{ x }}", "*x*{.a}"),
)


def strange(texts):
    """Make a record with each of the texts in all places that have one."""
    record = example_record()
    hardware = {**record.hardware, "cpu": " ".join(texts)}
    rows = [
        Row(name, f"{text} {x}", "s", side(text, 1), side(text, 2), 1, note=text, plot=text, x=x)
        for text in texts
        for name in ("allreduce", text)
        for x in (1, 2)
    ]
    return replace(record, hardware=hardware, versions={"torch": texts[0]}, rows=rows)


def structure(text):
    """Return the tokens of a page but for its words, as the book's parser sees them."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    extensions = set(config["parse"]["myst_enable_extensions"])
    parser = create_md_parser(MdParserConfig(enable_extensions=extensions), DocutilsRenderer)
    parts = [part for token in parser.parse(text) for part in (token, *(token.children or ()))]
    return [(part.type, part.tag) for part in parts]


@pytest.mark.slow
def test_text_of_a_record_is_never_markup():
    found = page.render([strange(HOSTILE)])
    plain = page.render([strange([f"word{i}" for i in range(len(HOSTILE))])])
    assert structure(found[page.PAGE]) == structure(plain[page.PAGE])
    assert len(found) == len(plain) > 2
    for name in found.keys() - {page.PAGE}:
        kinds = {element.tag.split("}")[1] for element in ET.fromstring(found[name]).iter()}
        assert not kinds & {"script", "a", "image", "foreignObject"}


# The charts


def chart(*factors):
    rows = [row for row in example_record().rows if row.x]
    scaled = [
        replace(row, ours=side(row.ours.label, 1e-4 * factors[i % len(factors)], 0.01), peer=None)
        for i, row in enumerate(rows)
    ]
    return charts.lines(scaled, "tensor size", size)


@pytest.mark.parametrize("high", [1, 1.01, 3, 40, 1e5])
def test_charts_of_any_range_have_ticks_that_can_be_read(high):
    assert faults(chart(1, high)) == []
    assert len(chart(1, high).axes[0].get_yticks()) >= 2


def test_text_that_cannot_be_read_would_be_found():
    figure = chart(1, 3)
    for place in ((0.5, -0.12), (0.99, 0.5)):
        figure.axes[0].annotate("a line in the way", place, xycoords="axes fraction")
    assert any("overlaps" in fault for fault in faults(figure))
    assert any("leaves the chart" in fault for fault in faults(figure))


# The comparison


def slowed(factor, number=0, name="ours"):
    rows = example_record().rows
    old = getattr(rows[number], name)
    new = replace(old, samples=[factor * value for value in old.samples])
    rows[number] = replace(rows[number], **{name: new})
    return example_record(rows=rows)


def test_slower_beyond_the_spread_is_reported():
    (line,) = records.slower(slowed(1.2), example_record())
    assert line == "lenet / one epoch / ours: was 5 s (4.75 to 5.25), now 6 s (5.7 to 6.3) (+20%)"
    assert len(records.slower(slowed(0.8, number=1), example_record())) == 1, "a lower rate"


@pytest.mark.parametrize(
    "new",
    [slowed(0.5), slowed(1.0), slowed(1.08), slowed(1.2, number=1), slowed(2, name="peer")],
    ids=["faster", "equal", "within the spread", "a higher rate", "the peer"],
)
def test_what_is_not_slower_is_not_reported(new):
    assert records.slower(new, example_record()) == []


def test_rows_of_one_run_only_are_not_compared():
    old = example_record()
    assert records.slower(slowed(2), replace(old, rows=old.rows[1:])) == []

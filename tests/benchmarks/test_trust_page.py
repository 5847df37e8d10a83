"""The page on how far to trust the clock: from tables that are made up, and as it is stored."""

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from support.chart_faults import faults
from support.paths import ROOT
from support.published_tables import COLLECTIVES, VTRAIN

from benchmarks.page import plain
from benchmarks.published import (
    assumed,
    blocks,
    claims,
    collectives,
    drawings,
    findings,
    page,
    ranks,
    tables,
    vtrain,
)
from benchmarks.published.rows import Prediction
from d2lmini.units import number, quantity

HOSTILE = "<script>alert(1)</script> A100 | `code` *bold* $x$ [a](b) {cite}`zhang2023dive` <<one>>"
STUDIES = {
    study: {what: [float(i + 1) for i in range(len(study.values))] for what, _ in study.conclusions}
    for study in assumed.STUDIES
}


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    texts = {"collectives.csv": COLLECTIVES, "vtrain.csv": VTRAIN}
    return [tables.read(write(folder, *item)) for item in texts.items()]


@pytest.fixture(scope="module")
def files(read):
    return page.render(read, STUDIES)


def hostile(table):
    """Return a table whose words are markup."""
    rows = [
        {**row, "system": HOSTILE, "source": HOSTILE, "algorithm": HOSTILE} for row in table.rows
    ]
    predictions = [replace(p, system=HOSTILE, preset=HOSTILE) for p in table.predictions]
    refused = [(line, HOSTILE) for line, _ in table.refused]
    return replace(table, rows=rows, predictions=predictions, refused=refused)


def test_the_page_has_all_rows_and_says_what_is_simulated(read, files):
    text = files[page.PAGE]
    for table in read:
        for line, reason in table.refused:
            assert f"| {table.family} | {line} | {plain(reason)} |" in text
    for row, p in zip(read[0].rows, read[0].predictions, strict=True):
        assert f"| {p.ratio:.2f} | {plain(row['algorithm'] or 'not said')} |" in text
    assert "<<" not in text
    for name in files.keys() - {page.PAGE}:
        assert text.count(name.removeprefix("chapters/")) == 1
        assert "simulated" in files[name]
        assert "predicted" in files[name]
    for word in ("simulated", "predicted", "published"):
        assert word in text


def test_the_page_is_the_same_each_time(read, files):
    assert page.render(read, STUDIES) == files


def test_figures_can_be_read_on_dark_pages(files):
    images = [text for name, text in files.items() if name.endswith(".svg")]
    assert len(images) == 4
    for text in images:
        assert "fill: #ffffff" in text.lower().partition("axes_1")[0], "needed in dark mode"
        assert "<text" in text, "letters stay letters"


def test_words_of_a_table_are_no_markup(read):
    steps = [(row, replace(p, what=HOSTILE)) for row, p in findings.pairs(read, "vtrain")]
    table = hostile(read[0])
    text = "\n".join(
        (
            blocks.collectives_tables(list(zip(table.rows, table.predictions, strict=True))),
            blocks.refused([table]),
            blocks.step_sample(steps),
            blocks.figure("x.svg", HOSTILE, HOSTILE),
        )
    )
    assert text.count(plain(HOSTILE)) > 10
    ours = text.replace(f"**{plain(HOSTILE)}**", "")  # the system's name is bold
    assert not re.search(r"(?<!\\)[<`$*]", ours), "escaped everywhere"
    curve = drawings.Curve(HOSTILE, {1: 1.0, 2: 2.0}, {1: 1.0})
    image = drawings.bandwidths([curve])
    kinds = {e.tag.split("}")[1] for e in ET.fromstring(page.svg(image, HOSTILE)).iter()}
    assert not kinds & {"script", "a", "image", "foreignObject"}


def test_a_slot_without_a_value_is_an_error():
    assert page.fill("<<a:.1f>> and <<b>>", {"a": 0.25, "b": "<<a>>"}) == "0.2 and <<a>>"
    with pytest.raises(KeyError):
        page.fill("<<c>>", {"a": 1})


def test_a_page_whose_text_would_be_wrong_is_not_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(page, "STUDIES", ())
    monkeypatch.setattr(claims, "broken", lambda numbers, studies: ["all is well"])
    paths = [write(tmp_path, "a.csv", COLLECTIVES), write(tmp_path, "b.csv", VTRAIN)]
    assert page.main([*map(str, paths)], root=tmp_path) == 1
    assert "all is well" in capsys.readouterr().out
    assert not (tmp_path / page.PAGE).exists()
    monkeypatch.setattr(claims, "broken", lambda numbers, studies: [])
    monkeypatch.setattr(page, "render", lambda found, studies: {page.PAGE: "text"})
    assert page.main(["--check", *map(str, paths)], root=tmp_path) == 1
    assert page.main([*map(str, paths)], root=tmp_path) == 0
    assert page.main(["--check", *map(str, paths)], root=tmp_path) == 0
    assert (tmp_path / page.PAGE).read_text(encoding="utf-8") == "text"
    assert page.main([str(write(tmp_path, "c.csv", "a,b\n1,2\n"))], root=tmp_path) == 2


def test_claims_are_about_the_numbers(read):
    numbers = findings.all_numbers(read)
    results = {what: row for study in STUDIES.values() for what, row in study.items()}
    assert "LeNet: a second GPU never helps, and at 2 us it does no harm" in claims.broken(
        numbers, results
    )
    assert "over nodes: within a tenth" in claims.broken(
        {**numbers, "several_low": 0.8, "several_high": 1.0}, results
    )
    assert "over nodes: within a tenth" not in claims.broken(
        {**numbers, "several_low": 0.95, "several_high": 1.0}, results
    )


# The numbers


def job(times, gpus="8"):
    """Return pairs of one job: (measured, predicted) for each split."""
    row = dict.fromkeys(findings.SAME_JOB, gpus)
    return [(row, Prediction("s", "p", "w", measured, predicted)) for measured, predicted in times]


def test_choices_by_hand():
    good = job([(1, 5), (2, 6), (4, 7)], "1")
    near = job([(1.04, 1), (1, 2), (3, 3)], "2")
    poor = job([(1, 3), (2, 2), (3, 1)], "3")
    too_few = job([(1, 3), (2, 2)], "4")
    found = findings.choices([*good, *near, *poor, *too_few], "x")
    assert found == {
        "x_jobs": 3, "x_best": 1, "x_near": 2, "x_choice": pytest.approx(2), "x_spread": 3,
    }  # fmt: skip


def test_a_single_split_is_no_choice():
    assert math.isnan(findings.choices(job([(1, 1)]), "x")["x_choice"])


def test_sizes_fall_into_their_classes(read):
    found = findings.pairs(read, "collectives")
    numbers = findings.of_collectives(found)
    ratios = {(row["system"], row["bytes"], row["collective"]): p.ratio for row, p in found}
    a100 = "8x A100 NVLink3"
    assert numbers["small_low"] == ratios[a100, str(2**20), "all_reduce"]
    assert numbers["large_high"] == ratios[a100, str(2**30), "all_reduce"]
    assert math.isnan(numbers["medium_low"])
    assert numbers["several_low"] == ratios["DGX A100, 8x200 Gb IB", "large", "all_reduce"]
    assert numbers["gap"] == pytest.approx(50e-6 * (1 - numbers["small_low"]))
    assert numbers["least"] == 2**20


def test_nothing_fitted_means_the_launch_overhead_of_the_preset(read):
    row = next(row for row, p in findings.pairs(read, "vtrain") if p.fitted)
    preset = vtrain.predict(row, launch=5e-6).predicted
    assert vtrain.predict(row, launch=None).predicted == preset < vtrain.predict(row).predicted


def test_a_missing_family_is_named(read):
    with pytest.raises(ValueError, match="'vtrain'"):
        page.render(read[:1], STUDIES)


def test_same_means_the_source_of_the_row_before():
    names = ("system", "gpus", "nodes", "collective", "algorithm", "bytes", "time_us", "source")
    lines = [("A100", "8", "1", "all_reduce", "", "1024", "9", "here"),
             ("V100", "8", "1", "all_reduce", "", "1024", "9", "same")]  # fmt: skip
    rows = [dict(zip(names, line, strict=True)) for line in lines]
    found = [(row, collectives.predict(row)) for row in rows]
    assert blocks.collectives_tables(found).count("Source: here.") == 2


# The figures


@pytest.mark.parametrize("high", [1.5, 40, 1e4])
def test_figures_of_any_range_can_be_read(high):
    curves = [
        drawings.Curve(name, {2**15: 1e9, 2**34: high * 1e9}, {2**34: 1e9})
        for name in ("one", "a system with a name that is far too long for a line of the key")
    ]
    assert faults(drawings.bandwidths(curves)) == []
    groups = {"some": [p for _, p in job([(1, 1), (high, 0.7 * high)])]}
    assert faults(drawings.scatter(groups)) == []


def test_points_are_where_the_times_are():
    axes = drawings.scatter({"some": [p for _, p in job([(1, 2), (30, 40)])]}).axes[0]
    (dots,) = (line for line in axes.lines if list(line.get_xdata()) == [1, 30])
    assert list(dots.get_ydata()) == [2, 40]


# The stored page


STORED = (ROOT / page.PAGE).read_text(encoding="utf-8")
ANEW = f"write {page.PAGE} anew"
_ROW = re.compile(
    r"\| (?P<collective>\w+) (?P<size>\S+ [KMG]iB), (?P<gpus>\d+) GPUs(, (?P<nodes>\d+) nodes)?"
    r"(, “large”)? \| (?P<published>\S+ \S+) \| (?P<predicted>\S+ \S+) \| (?P<ratio>\S+) "
    r"\| (?P<algorithm>.*) \| (?P<found>.*) \|"
)


def stored_rows():
    """Yield the rows of collectives that the stored page shows, as a table has them."""
    system = None
    for line in STORED.replace("\\", "").splitlines():
        if heading := re.match(r"\*\*(.*)\*\*, simulated as", line):
            system = heading[1]
        if row := _ROW.fullmatch(line):
            number, unit = row["size"].split()
            num_bytes = int(number) * 2 ** {"KiB": 10, "MiB": 20, "GiB": 30}[unit]
            algorithm = "" if row["algorithm"] == "not said" else row["algorithm"]
            yield row, {
                "system": system, "gpus": row["gpus"], "nodes": row["nodes"] or "1",
                "collective": row["collective"], "algorithm": algorithm, "bytes": str(num_bytes),
                "time_us": "1", "busbw_GBps": "",
            }  # fmt: skip


def test_the_stored_page_has_what_is_predicted_today():
    rows = list(stored_rows())
    assert len(rows) > 30
    for shown, row in rows:
        p = collectives.predict(row)
        factor = blocks._bandwidth(row, p.predicted) if "B/s" in shown["predicted"] else p.predicted
        unit = "B/s" if "B/s" in shown["predicted"] else "s"
        assert shown["predicted"] == quantity(factor, unit), ANEW
        assert p.what.endswith(f": {shown['found']}"), ANEW


_STEP = re.compile(
    r"\| h(\d+) L(\d+) TP(\d+) DP(\d+) PP(\d+) batch (\d+), micro (\d+) \| \S+ \S+ \| (\S+ \S+) \|"
)


def test_the_stored_steps_are_what_is_predicted_today():
    found = _STEP.findall(STORED)
    assert len(found) == 10
    for *numbers, predicted in found:
        hidden, layers, tensor, data, pipeline, batch, micro = numbers
        gpus = str(int(tensor) * int(data) * int(pipeline))
        # What the page does not say: heads are 64 wide on one node, on several 96 and 128.
        heads = {"1024": "16", "2048": "16", "3072": "32", "12288": "96"}[hidden]
        seq = "1024" if int(gpus) <= vtrain.GPUS_PER_NODE else "2048"
        values = (gpus, batch, micro, hidden, heads, layers, seq, tensor, data, pipeline, "1")
        names = VTRAIN.splitlines()[0].split(",")
        p = vtrain.predict(dict(zip(names, values, strict=True)))
        assert quantity(p.predicted, "s") == predicted, ANEW


@pytest.mark.parametrize("study", assumed.STUDIES, ids=lambda study: study.constant)
def test_the_stored_studies_are_what_is_simulated_today(study):
    assert blocks.study_table(study, {}) in STORED, ANEW  # the head: values, which is the preset's
    for what, find in study.conclusions:
        (line,) = (line for line in STORED.splitlines() if line.startswith(f"| {what} |"))
        cells = line.strip("| ").split(" | ")[1:]
        for value, cell in zip(study.values, cells, strict=True):
            if value == study.preset or "ResNet" not in what:  # those are slow: one is enough
                assert cell == number(find(value)), ANEW


def test_the_stored_page_says_what_ranks_are_charged():
    swept = [row for _, row in stored_rows() if row["system"] == "8x A100 NVLink3"]
    assert ranks.sentence([(row, collectives.predict(row)) for row in swept]) in STORED, ANEW


def test_ranks_that_are_charged_the_same_are_said_to_be(monkeypatch, read):
    found = findings.pairs(read, "collectives")
    same = [p.predicted for _, p in findings.sweep(found)]
    monkeypatch.setattr(ranks, "charged", lambda *_: same)
    assert "exactly" in ranks.sentence(found)
    monkeypatch.setattr(ranks, "charged", lambda *_: [2 * same[0], *same[1:]])
    assert "2.00 times" in ranks.sentence(found)

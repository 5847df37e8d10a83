"""The page on how far to trust the clock: from tables that are made up, and as it is stored."""

import importlib
import math
import os
import pkgutil
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from support.paths import ROOT
from support.samples.chart_faults import faults
from support.samples.published_tables import COLLECTIVES, VTRAIN

import simgpu
from benchmarks.published import orders, record, tables
from benchmarks.published.families import collectives, vtrain
from benchmarks.published.page import (
    blocks,
    claims,
    constants,
    coverage,
    drawings,
    findings,
    ranks,
    summary,
    write,
)
from benchmarks.published.shared import markdown
from benchmarks.published.shared.markdown import plain
from benchmarks.published.shared.rows import Prediction
from benchmarks.published.study import assumed
from simgpu.hardware import assumptions as hardware

HOSTILE = "<script>alert(1)</script> A100 | `code` *bold* $x$ [a](b) {cite}`zhang2023dive` <<one>>"
STUDY = (
    {c: [1.5] * len(assumed.LAUNCHES) for c in (*assumed.CONCLUSIONS, *assumed.BETWEEN)},
    {c: [[1.5, 2.5] for _ in assumed.ASSUMPTIONS] for c in assumed.CONCLUSIONS},
)


def write_file(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    texts = {"collectives.csv": COLLECTIVES, "vtrain.csv": VTRAIN}
    return [tables.read(write_file(folder, *item)) for item in texts.items()]


@pytest.fixture(scope="module")
def files(read):
    return write.render(read, STUDY, findings.all_numbers(read))


def hostile(table):
    """Return a table whose words are markup."""
    rows = [
        {**row, "system": HOSTILE, "source": HOSTILE, "algorithm": HOSTILE} for row in table.rows
    ]
    predictions = [replace(p, system=HOSTILE, preset=HOSTILE) for p in table.predictions]
    refused = [(line, HOSTILE) for line, _ in table.refused]
    return replace(table, rows=rows, predictions=predictions, refused=refused)


@pytest.mark.long
def test_the_page_has_all_rows_and_says_what_is_simulated(read, files):
    text = files[write.PAGE]
    for table in read:
        for line, reason in table.refused:
            assert f"| {table.family} | {line} | {plain(reason)} |" in text
    for row, p in zip(read[0].rows, read[0].predictions, strict=True):
        on_nodes = row["nodes"] != "1"
        if on_nodes or (p.system == "8x A100 NVLink3" and row["collective"] == "all_reduce"):
            assert f"| {p.ratio:.2f} |" in text
    assert "<<" not in text
    for name in (name for name in files.keys() - {write.PAGE} if name.startswith("chapters/")):
        assert text.count(name.removeprefix("chapters/")) == 1
        assert "simulated" in files[name]
        assert "predicted" in files[name]
    for word in ("simulated", "predicted", "published"):
        assert word in text


def test_figures_can_be_read_on_dark_pages(files):
    images = [text for name, text in files.items() if name.endswith(".svg")]
    assert len(images) == 3
    for text in images:
        assert "fill: #ffffff" in text.lower().partition("axes_1")[0], "needed in dark mode"
        assert "<text" in text, "letters stay letters"


def test_words_of_a_table_are_no_markup(read):
    table = hostile(read[0])
    pairs = list(zip(table.rows, table.predictions, strict=True))
    text = "\n".join(
        (
            blocks.message_table(pairs, pairs),
            blocks.node_table(pairs),
            coverage.refused([table]),
            markdown.figure("x.svg", HOSTILE, HOSTILE),
        )
    )
    assert text.count(plain(HOSTILE)) > 10
    assert not re.search(r"(?<!\\)[<`$*]", text), "escaped everywhere"
    curve = drawings.Curve(HOSTILE, {1: 1.0, 2: 2.0}, {1: 1.0})
    image = drawings.bandwidths([curve])
    kinds = {e.tag.split("}")[1] for e in ET.fromstring(write.svg(image, HOSTILE)).iter()}
    assert not kinds & {"script", "a", "image", "foreignObject"}


def test_a_slot_without_a_value_is_an_error():
    assert write.fill("<<a:.1f>> and <<b>>", {"a": 0.25, "b": "<<a>>"}) == "0.2 and <<a>>"
    with pytest.raises(KeyError):
        write.fill("<<c>>", {"a": 1})


def test_a_page_whose_text_would_be_wrong_is_not_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(assumed, "study", lambda: STUDY)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(claims, "broken", lambda numbers, *study: ["all is well"])
    paths = [write_file(tmp_path, "a.csv", COLLECTIVES), write_file(tmp_path, "b.csv", VTRAIN)]
    assert write.main([*map(str, paths)], root=tmp_path) == 1
    assert "all is well" in capsys.readouterr().out
    assert not (tmp_path / write.PAGE).exists()
    monkeypatch.setattr(claims, "broken", lambda numbers, *study: [])
    monkeypatch.setattr(write, "render", lambda found, study, numbers: {write.PAGE: "text"})
    assert write.main(["--check"], root=tmp_path) == 1
    assert write.main([], root=tmp_path) == 0
    assert write.main(["--check"], root=tmp_path) == 0
    assert (tmp_path / write.PAGE).read_text(encoding="utf-8") == "text"
    assert write.main([str(write_file(tmp_path, "c.csv", "a,b\n1,2\n"))], root=tmp_path) == 2


def test_claims_are_about_the_numbers(read):
    numbers = findings.all_numbers(read)
    over_nodes = "over nodes: within an eighth"
    for low, wrong in ((0.8, True), (0.9, False)):
        changed = {**numbers, "several_low": low, "several_high": 1.0}
        assert (over_nodes in claims.broken(changed, *STUDY)) == wrong


@pytest.mark.parametrize(
    ("claim", "values", "holds"),
    [
        ("ResNet-18, 32 images", [1.5, 1.4, 1.1, 1.01, 0.9], True),
        ("ResNet-18, 32 images", [1.5, 1.4, 1.1, 0.9, 0.9], False),
        ("ResNet-18, 32 images", [1.5, 1.4, 1.2, 1.1, 0.9], False),
        ("LeNet, 256 images each", [1.2, 0.9, 0.9, 0.9, 0.9], True),
        ("LeNet, 256 images each", [1.2, 0.9, 1.1, 0.9, 0.9], False),
    ],
)
def test_claims_are_about_what_turns_around(read, claim, values, holds):
    launches, ranges = STUDY
    changed = {c: values if c in assumed.BETWEEN else row for c, row in launches.items()}
    wrong = claims.broken(findings.all_numbers(read), changed, ranges)
    assert any(words.startswith(claim) for words in wrong) != holds


def test_a_conclusion_that_fails_is_a_claim_that_fails(read):
    launches, _ = STUDY
    good = {c: [[(c.low + min(c.high, c.low + 2)) / 2] for _ in assumed.ASSUMPTIONS]
            for c in assumed.CONCLUSIONS}  # fmt: skip
    adding = assumed.CONCLUSIONS[0]
    for name in ("LAUNCH_OVERHEAD", "KERNEL_OVERHEAD"):
        good[adding][claims._place(name)] = [1.5]
    words = "conclusions: all but one hold in the whole ranges"
    numbers = findings.all_numbers(read)
    assert words not in claims.broken(numbers, launches, good)
    good[assumed.CONCLUSIONS[1]][claims._place("LINK_EFFICIENCY")] = [1.0]
    assert words in claims.broken(numbers, launches, good)


# The numbers


def test_sizes_fall_into_their_classes(read):
    found = findings.pairs(read, "collectives")
    numbers = findings.of_collectives(found)
    ratios = {(row["system"], row["bytes"], row["collective"]): p.ratio for row, p in found}
    a100 = "8x A100 NVLink3"
    assert numbers["between_low"] == ratios[a100, str(2**20), "all_reduce"]
    assert numbers["large_high"] == ratios[a100, str(2**30), "all_reduce"]
    assert math.isnan(numbers["medium_low"])
    assert math.isnan(numbers["short_low"])
    assert numbers["several_low"] == ratios["DGX A100, 8x200 Gb IB", "large", "all_reduce"]
    assert numbers["flat_0"] == pytest.approx(50)
    assert numbers["between_most"] == pytest.approx(1 / numbers["between_low"])


def test_what_all_reduces_would_have_to_explain():
    """Two layers, four micro-batches, six all-reduces each: 48 share what is missing."""
    row = {"hidden size": "1024", "tensor parallelism": "8", "micro batch": "1",
           "global batch": "8", "data parallelism": "2", "# layers": "2"}  # fmt: skip
    slow = {**row, "hidden size": "2048", "tensor parallelism": "4"}
    pairs = [(row, Prediction("s", "p", "w", 1.48, 1.0)), (slow, Prediction("s", "p", "w", 1, 1.1))]
    found = findings.of_tensor_parallelism(pairs)
    assert found == {"tp8_missing": pytest.approx(1e4), "tp4_error": pytest.approx(0.1)}


def test_nothing_fitted_means_the_launch_overhead_of_the_preset(read):
    pairs = findings.pairs(read, "vtrain")
    row, p = next(pair for pair in pairs if pair[1].fitted)
    assert vtrain.job_of(row, launch=None).cluster.gpu.launch_overhead == 5e-6
    assert p.unfitted < p.predicted
    plain = orders.without_fit(p for _, p in pairs)
    assert [p.predicted for p in plain] == [p.unfitted for _, p in pairs]


def test_a_missing_family_is_named(read):
    with pytest.raises(ValueError, match="'vtrain'"):
        write.render(read[:1], STUDY, {})


def test_same_means_the_source_of_the_row_before():
    names = ("system", "gpus", "nodes", "collective", "algorithm", "bytes", "time_us", "source")
    lines = [("A100", "8", "1", "all_reduce", "", "1024", "9", "here"),
             ("V100", "8", "1", "all_reduce", "", "1024", "9", "same")]  # fmt: skip
    rows = [dict(zip(names, line, strict=True)) for line in lines]
    found = [(row, collectives.predict(row)) for row in rows]
    assert "Source: here." in blocks.message_table(found[1:], found)


# The figures


def predictions(*times):
    """Return a prediction for each pair of times: measured, predicted."""
    return [Prediction("s", "p", "w", *pair) for pair in times]


@pytest.mark.parametrize("high", [1.5, 40, 1e4])
def test_figures_of_any_range_can_be_read(high):
    curves = [
        drawings.Curve(name, {2**15: 1e9, 2**34: high * 1e9}, {2**34: 1e9})
        for name in ("one", "a system with a name that is far too long for a line of the key")
    ]
    assert faults(drawings.bandwidths(curves)) == []
    groups = {"some": predictions((1, 1), (high, 0.7 * high))}
    assert faults(drawings.scatter(groups)) == []


def test_text_that_cannot_be_read_would_be_found():
    figure = drawings.scatter({"some": predictions((1, 1), (3, 2))})
    for place in ((0.5, -0.08), (0.99, 0.5)):
        figure.axes[0].annotate("a line in the way", place, xycoords="axes fraction")
    assert any("overlaps" in fault for fault in faults(figure))
    assert any("leaves the chart" in fault for fault in faults(figure))


def test_points_are_where_the_times_are():
    axes = drawings.scatter({"some": predictions((1, 2), (30, 40))}).axes[0]
    (dots,) = (line for line in axes.lines if list(line.get_xdata()) == [1, 30])
    assert list(dots.get_ydata()) == [2, 40]


# The stored page


STORED = (ROOT / write.PAGE).read_text(encoding="utf-8")
ANEW = f"write {write.PAGE} anew"
RECORDED, RECORDED_STUDY = record.read()


def test_a_record_is_read_as_it_was_written(read, tmp_path):
    path = tmp_path / "made" / "record.json"
    record.write(read, STUDY, path)
    assert record.read(path) == (read, STUDY)
    path.write_text('{"format": "other"}', encoding="utf-8")
    with pytest.raises(ValueError, match="write it anew"):
        record.read(path)


@pytest.mark.long
def test_the_stored_page_is_what_the_record_gives():
    numbers, missed = findings.all_numbers(RECORDED), summary.missed(RECORDED)
    assert write.render(RECORDED, RECORDED_STUDY, numbers)[write.PAGE] == STORED, ANEW
    assert claims.broken(numbers, *RECORDED_STUDY, missed) == []


def is_recorded(table, row, p):
    """Say whether a row is predicted today as in the record, to six digits."""
    found = tables.FAMILIES[table.family].predict(row)
    same = p.unfitted is None or found.unfitted == pytest.approx(p.unfitted)
    return same and found.predicted == pytest.approx(p.predicted)


def test_recorded_messages_take_what_they_take_today():
    found = [table for table in RECORDED if table.family in ("collectives", "more messages")]
    assert sum(len(table.rows) for table in found) > 100
    for table in found:
        for row, p in zip(table.rows, table.predictions, strict=True):
            assert is_recorded(table, row, p), ANEW


# Rows of each source's table that we have, whatever became of them.
COUNTS = {
    "collectives": 35, "more messages": 94, "vtrain": 47 + 714, "llmfoundry": 103,
    "torchtitan": 13, "megatron 2021": 5, "megatron 2024": 5, "korthikanti times": 4,
    "korthikanti memory": 10, "nanotron": 14, "gpt2": 3, "resnet50": 4, "torchgpipe": 5,
    "large models": 5, "internevo": 18, "moe folding": 38, "moe modelzoo": 11, "automodel": 8,
    "bridge": 15, "megascale": 8, "megatron b200": 28,
}  # fmt: skip


def test_no_row_of_a_table_has_vanished():
    """Every row was predicted or refused, with its line."""
    found = {}
    for table in RECORDED:
        found[table.family] = found.get(table.family, 0) + len(table.rows) + len(table.refused)
        lines = [line for line, _ in table.refused]
        assert len({*lines}) == len(lines)
        assert all(2 <= n <= len(table.rows) + len(lines) + 1 for n in lines)
    assert found == COUNTS, ANEW


def test_tables_are_exchanged_in_a_record(read):
    """The others stay, in their order; a table that was not there comes last."""
    new = replace(read[0], rows=read[0].rows[:1], predictions=read[0].predictions[:1])
    assert record.renewed(read, [new]) == [new, *read[1:]]
    other = replace(read[0], family="other")
    assert record.renewed(read, [other]) == [*read, other]


def samples():
    """Return recorded steps: of each family the shortest, of vTrain from low to high ratio.

    Of mixtures of experts and of vTrain's those without a pipeline: pipelines take a minute.
    """
    found = []
    for table in RECORDED:
        pairs = list(zip(table.rows, table.predictions, strict=True))
        if table.family in ("moe folding", "moe modelzoo"):
            pairs = [pair for pair in pairs if pair[0]["PP"] in ("", "1")]
        if table.family == "vtrain":
            pairs = [pair for pair in pairs if pair[0]["pipeline parallelism"] == "1"]
            pairs.sort(key=lambda pair: (pair[1].ratio, pair[1].what))
            found += [(table, *pairs[i * (len(pairs) - 1) // 2]) for i in range(3)]
        elif table.family not in ("collectives", "more messages", summary.PAPER):
            found.append((table, *min(pairs, key=lambda pair: pair[1].predicted)))
    return found


@pytest.mark.long
@pytest.mark.sample(3)
@pytest.mark.slow
@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample[0].family)
def test_recorded_steps_take_what_they_take_today(sample):
    assert is_recorded(*sample), ANEW


def test_the_record_has_rows_of_all_families():
    assert {table.family for table in RECORDED} == set(tables.FAMILIES), ANEW


def is_slow(conclusion):
    return conclusion.words.startswith(("ResNet", "Transformer", "Experts"))


@pytest.mark.long
@pytest.mark.sample(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    "conclusion", [*assumed.CONCLUSIONS, *assumed.BETWEEN], ids=lambda c: c.words[:40]
)
def test_the_recorded_conclusions_are_what_is_simulated_today(conclusion):
    launches, assumptions = RECORDED_STUDY
    preset = assumed.LAUNCHES.index(hardware.LAUNCH_OVERHEAD)
    assert launches[conclusion][preset] == pytest.approx(assumed.preset(conclusion)), ANEW
    if is_slow(conclusion):  # one is enough
        return
    assert launches[conclusion] == pytest.approx(assumed.by_launch(conclusion)), ANEW
    if conclusion in assumptions:
        today = zip(assumptions[conclusion], assumed.by_assumption(conclusion), strict=True)
        assert all(stored == pytest.approx(found) for stored, found in today), ANEW


def test_every_constant_changes_some_conclusion():
    """Or it is not varied: what was computed with another value of it may be cached."""
    without_effect = {
        assumption.names
        for place, assumption in enumerate(assumed.ASSUMPTIONS)
        if all(max(c[place]) < 1.0005 * min(c[place]) for c in RECORDED_STUDY[1].values())
    }
    assert without_effect == {("MOST",)}, "a limit that no conclusion reaches"


def test_a_conclusion_that_does_not_hold_is_bold():
    c = assumed.Conclusion("a", "devices", None, low=1, high=2)
    line = blocks.launch_table({c: [1.5, 2.5, 1, 1.25, 1.75]}).splitlines()[-1]
    assert line == "| [a](devices.ipynb) | 1.5 | **2.5** | **1** | 1.25 | 1.75 |"
    columns = [[1.5], [1.5, 2.5]]
    line = blocks.assumption_table({c: columns}).splitlines()[-1]
    assert line == "| [a](devices.ipynb) | 1.5 |  | **1.50 to 2.50** |"
    line = blocks.range_table({c: columns}).splitlines()[-1]
    assert line == (
        "| [a](devices.ipynb) | 1.5 | 1.50 | 2.50 (collective on the host) "
        "| **collective on the host** |"
    )
    line = blocks.range_table({c: [[1.5], [1.25, 1.75]]}).splitlines()[-1]
    assert line.endswith("| 1.75 (collective on the host) | none |")


def test_constants_are_changed_one_at_a_time():
    gpu, link = assumed.find_gpu_and_link()
    for a in assumed.ASSUMPTIONS:
        for value in a.values:
            other, wires = a.change(gpu, link, value)
            changed = (other != gpu) + (wires != link)
            assert changed == (a.where is None), a.words
            if a.where:
                module, name = a.where
                kept = getattr(module, name)
                with a.applied(value):
                    assert getattr(module, name) == a.make(value) != kept
                assert getattr(module, name) == kept
    assert assumed._wires(gpu, link, 0.4)[1].bandwidth == pytest.approx(link.bandwidth / 2)
    assert assumed._host_memory(gpu, link, 2)[1].pageable_to_host == 2 * link.pageable_to_host


def test_all_constants_are_listed():
    """Every number of the modules of assumptions; so a new one cannot be forgotten."""
    listed = {(c.module, c.name) for c in constants.CONSTANTS}
    where = {c.module for c in constants.CONSTANTS} - {constants.collective_costs}
    for module in where:
        names = {
            name
            for name, value in vars(module).items()
            if name.isupper() and isinstance(value, (int, float))
        }
        assert names <= {name for found, name in listed if found is module}, module
    for found in pkgutil.walk_packages(simgpu.__path__, "simgpu."):
        folder, name = found.name.split(".")[1], found.name.rpartition(".")[2]
        if folder in ("clock", "hardware", "network", "ranks") and name != "nccl_parameters":
            module = importlib.import_module(found.name)
            times = {
                name for name, value in vars(module).items()
                if isinstance(value, float) and re.search("_(SECONDS|OVERHEAD|LATENCY|RATE)$", name)
            }  # fmt: skip
            assert times <= {name for _, name in listed}, module
    lines = constants.constant_table(assumed.varied())
    assert len(lines) == len(constants.CONSTANTS)
    by_name = {line[-1].strip("`").rpartition(".")[2]: line for line in lines}
    assert by_name["HOST_RATE"][1] == "80 GB/s"
    assert by_name["HOST_RATE"][4] == "40 to 160 GB/s"
    assert by_name["COLLECTIVE_LAUNCH_OVERHEAD"][1] == "25 µs"
    assert by_name["FLASH"][1:5:3] == ("8: 60%, 9: 35%", "40 to 75%, on an A100")
    assert assumed.varied().keys() <= by_name.keys(), "the study varies none that is not listed"
    assert [name for name, line in by_name.items() if line[2] == "fitted"] == [
        "PAGEABLE_TO_HOST", "STAGING_CHUNK", "ODD_ROWS", "WIRE", "FILL", "START",
        "PAIR_CHANNEL_RATE", "EFA_LATENCY",
    ]  # fmt: skip


def test_ranks_that_are_charged_the_same_are_said_to_be(monkeypatch, read):
    """What one thread that launches on eight GPUs adds is no time of a rank."""
    found = findings.pairs(read, "collectives")
    rows = [(row, collectives.predict({**row, "source": ""})) for row, _ in findings.sweep(found)]
    same = [p.predicted for _, p in rows]
    monkeypatch.setattr(ranks, "charged", lambda *_: same)
    assert "exactly" in ranks.sentence(found)
    monkeypatch.setattr(ranks, "charged", lambda *_: [2 * same[0], *same[1:]])
    assert "2.00 times" in ranks.sentence(found)

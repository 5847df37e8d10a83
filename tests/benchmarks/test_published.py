"""The back-test's command, on small tables that are made up."""

import json
import re

import pytest
from support.samples.published_tables import COLLECTIVES, VTRAIN

from benchmarks.published import __main__ as published
from benchmarks.published import tables
from benchmarks.published.families import collectives, vtrain
from benchmarks.published.score import calibrated, rank_correlation, ranks, score
from benchmarks.published.shared import systems
from benchmarks.published.shared.rows import Prediction, UnpredictableError


def run(tmp_path, capsys, text):
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    status = published.main([str(path)])
    return status, capsys.readouterr().out.splitlines()


def test_a_table_of_collectives(tmp_path, capsys):
    status, lines = run(tmp_path, capsys, COLLECTIVES)
    assert status == 0
    found = json.loads(lines[-1])
    assert (found["family"], found["rows"], found["not_predicted"]) == ("collectives", 6, 7)
    refused = [line for line in lines if "not predicted" in line]
    reasons = ("Voodoo", "no switch", "Butterfly", "'some'", "'fast'", "all_together", "64 GPUs")
    for place, (line, reason) in enumerate(zip(refused, reasons, strict=True)):
        assert re.match(rf"line {8 + place} not predicted: .*{reason}", line), line
    rows = [line for line in lines if re.match(r" *\d+\.\d{3} ", line)]
    assert len(rows) == 6
    assert [re.search(r"\[(.*?)\]", row)[1] for row in rows] == [
        *["a100/nvlink3"] * 3, *["h200/nvlink4"] * 2, "a100/nvlink3/hdr",
    ]  # fmt: skip
    assert rows[3].endswith("NVLS: nvls Simple")
    assert rows[4].endswith("ring Simple")
    assert "8x A100 NVLink3" in rows[0]


def test_a_rate_and_a_time_say_the_same():
    row = dict(system="A100", gpus="8", nodes="1", collective="all_reduce", algorithm="")
    row["bytes"] = str(2**30)
    time = collectives.predict({**row, "time_us": "7000", "busbw_GBps": ""})
    rate = collectives.predict({**row, "time_us": "", "busbw_GBps": f"{1.75 * 2**30 / 7e6}"})
    assert time.measured == pytest.approx(rate.measured)
    assert time.measured == pytest.approx(7e-3)
    # 8.4 us, 14 steps of 3.4 us; bytes at 96 % of the rate, and 24 slices of 1 MiB to fill.
    wire = (2**30 / 0.96 + 24 * 2**20 * 2**30 / (2**30 + 24 * 2**20)) * 1.75 / 240e9
    assert time.predicted == pytest.approx(8.4e-6 + 14 * 3.4e-6 + wire)


@pytest.mark.long
def test_a_table_of_vtrain(tmp_path, capsys):
    status, lines = run(tmp_path, capsys, VTRAIN)
    assert status == 0
    found = json.loads(lines[-1])
    assert (found["family"], found["rows"], found["not_predicted"]) == ("vtrain", 4, 3)
    assert found["not_fitted"]["rows"] == 3
    assert found["one_point_per_system"]["rows"] == 2  # one of three, none of one
    assert "Megatron-DeepSpeed" in lines[-2]
    assert "hidden size 1024" in lines[-2]
    refused = [line for line in lines if "not predicted" in line]
    reasons = ("3 x 1 x 1 is not the table's 4", "10 is no multiple", "'unknown'")
    for line, reason in zip(refused, reasons, strict=True):
        assert reason in line


def test_vtrain_rows_on_one_node_and_more():
    names = VTRAIN.splitlines()[0].split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in VTRAIN.splitlines()[1:5]]
    one, eight, sixteen, host = (vtrain.predict(row) for row in rows)
    assert one.system == eight.system == host.system != sixteen.system
    assert "hdr4" in sixteen.preset
    assert one.predicted > eight.predicted
    assert [p.fitted for p in (one, eight, sixteen, host)] == [False, False, False, True]


def test_a_table_that_nobody_knows(tmp_path, capsys):
    status, lines = run(tmp_path, capsys, "system,gpus\nDGX,8\n")
    assert status == 2
    assert "no family knows this table" in lines[0]
    assert len(lines) == 1 + len(tables.FAMILIES)


def test_an_empty_table(tmp_path, capsys):
    status, lines = run(tmp_path, capsys, COLLECTIVES.splitlines()[0] + "\n")
    assert status == 0
    assert json.loads(lines[-1])["median_error"] is None


@pytest.mark.parametrize(
    ("name", "gpus", "nodes", "preset"),
    [
        ("DGX-1, 8x Tesla V100", 8, 1, "v100/nvlink2"),
        ("2x DGX H100, 8 x 400 Gb/s NDR", 16, 2, "h100/nvlink4/ndr"),
        ("4 nodes x 8 H200, EFA 8x50 GB/s", 32, 4, "h200/nvlink4/efa"),
        ("A100 nodes, 100 Gb Ethernet", 16, 2, "a100/nvlink3/ethernet100"),
        ("8x A100 PCIe", 8, 1, "a100/pcie4"),
        ("4x RTX 4090", 4, 1, "rtx4090/pcie4_staged"),
        ("HGX B200", 8, 1, "b200/nvlink5"),
    ],
)
def test_names_of_systems_find_their_presets(name, gpus, nodes, preset):
    cluster, words = systems.find_system(name, gpus, nodes)
    assert words == preset
    assert (cluster.world_size, cluster.nodes) == (gpus, nodes)


def test_systems_that_nothing_stands_for():
    with pytest.raises(UnpredictableError, match=r"MI300X.*h100"):
        systems.find_system("8x MI300X", 8, 1)
    with pytest.raises(UnpredictableError, match="9 GPUs"):
        systems.find_system("A100", 9, 2)


def row(system, measured, predicted, fitted=False):
    return Prediction(system, "preset", "what", measured, predicted, fitted)


def test_ranks_and_their_correlation_by_hand():
    assert ranks([10, 30, 20, 30]) == [1, 3.5, 2, 3.5]
    assert rank_correlation([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3, 4, 5], [10, 30, 20, 40, 50]) == pytest.approx(0.9)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 1], [1, 2]) is None


def test_errors_by_hand():
    found = score([row("x", 10, 11), row("x", 10.5, 10.5), row("x", 20, 15)])
    assert found["median_error"] == 0.1
    assert found["worst_error"] == 0.25
    assert found["rank_correlation"] == 0.5
    assert "not_fitted" not in found


def test_one_point_takes_away_what_all_rows_of_a_system_have_in_common():
    rows = [row("x", t, 2 * t) for t in (1, 2, 3)] + [row("y", t, t / 4) for t in (1, 2, 3)]
    assert score(rows)["median_error"] > 0.7
    assert score(rows)["one_point_per_system"] == {
        "rows": 4, "median_error": 0, "worst_error": 0, "rank_correlation": 1,
    }  # fmt: skip
    assert calibrated([row("x", 1, 2)]) == []


def test_the_calibration_point_is_neither_the_best_nor_the_worst():
    """Ratios 1, 1.1, 2: the points leave medians of 0.55, 0.454 and 0.475."""
    rows = [row("x", 1, 1), row("x", 2, 2.2), row("x", 3, 6)]
    assert calibrated(rows) == [(pytest.approx(0.5), 1), (pytest.approx(1.1), 2)]


def test_rows_that_a_parameter_was_fitted_to_are_told_apart():
    found = score([row("x", 1, 1, fitted=True), row("x", 2, 3), row("x", 3, 3.3)])
    assert found["rows"] == 3
    assert found["not_fitted"]["rows"] == 2
    assert found["not_fitted"]["median_error"] == 0.3

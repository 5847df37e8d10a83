"""The page's summary over all tables, and its rows that ran as programs."""

import re
from dataclasses import replace

from benchmarks.published import tables
from benchmarks.published.page import blocks, claims, coverage, editions, summary
from benchmarks.published.shared.rows import Prediction

COLUMNS = {"resnet50": {"system": "A", "gpus": "1", "precision": "AMP", "images_per_s": "9"}}


def made_up(family, pairs, memory=None, job=""):
    predictions = [Prediction("sys", "p", f"w{i}", measured, predicted, memory=memory, job=job)
                   for i, (predicted, measured) in enumerate(pairs)]  # fmt: skip
    return tables.Table(family, [COLUMNS["resnet50"]] * len(pairs), predictions, [])


GOOD = made_up("resnet50", [(1.0, 1.0), (2.2, 2.0), (3.0, 3.0)], (100, 105), "one")
POOR = made_up("gpt2", [(3.0, 1.0), (2.0, 2.0), (1.0, 3.0)], (100, 150), "one")


def test_goals_that_are_missed_are_bold():
    assert [len(summary.lines([table])) for table in (GOOD, POOR)] == [1, 1]
    good, poor = ("|".join(map(str, summary.lines([table])[0])) for table in (GOOD, POOR))
    assert "**" not in good
    assert good.endswith("|3||0.0%|5.0% (2)|1.00|1.00|5.0% (3)")
    assert poor.count("**") == 2 * 5
    assert "-1.00" in poor


def test_rows_that_are_refused_are_counted_and_named():
    table = replace(GOOD, refused=[(4, "why"), (5, "why"), (9, "why"), (7, "other")])
    assert summary.lines([table])[0][2] == 4
    text = coverage.refused([table])
    assert "4 of 7 rows have no prediction" in text
    assert "| resnet50 | 4 to 5, 9 | why |" in text
    assert "| resnet50 | 7 | other |" in text


def test_what_fits_and_what_was_said_by_hand():
    cases = [(True, True), (True, True), (True, False), (False, True), None]
    table = replace(GOOD, predictions=[replace(GOOD.predictions[0], fits=case) for case in cases])
    assert summary.fit_lines([table, POOR])[0][1:] == (2, 1, 0, 1)
    assert "| all | 2 | 1 | 0 | 1 |" in coverage.fit_table([table])
    assert "| all | 0 | 0 | 0 | 0 |" in coverage.fit_table([POOR])


def test_the_last_edition_stands_beside_this_one():
    """A reason is given where a figure got worse, and only there."""
    (poor,) = editions.lines([POOR])  # 67 % after 16.3 %
    assert poor[1:3] == ("16.3%", "66.7%")
    (good,) = editions.lines([GOOD])
    assert good[1:] == ("20.1%", "0.0%", "")


def test_which_families_miss_which_goal():
    found = summary.missed([GOOD, POOR])
    assert found == {goal: {"gpt2"} for goal in ("before", "after", "order", "splits", "memory")}
    assert all("gpt2" not in words or not holds for words, holds in claims._programs(found).items())
    same = {goal: set(families) for goal, families in claims.MISSED.items()}
    assert all(claims._programs(same).values())


def test_every_row_is_in_a_fold():
    text = blocks.program_rows([GOOD, POOR])
    assert text.count("::::{dropdown}") == 2
    assert len(re.findall(r"^\| \d\.\d\d \|", text, re.MULTILINE)) == 6
    assert text.index("GPT-2") < text.index("ResNet-50")


def test_what_a_formula_gives_is_no_measurement():
    row = {"model": "22B", "variant": "both", "activation_memory_pct_of_no_recompute": "20"}
    rows = [row, {**row, "variant": "none", "activation_memory_pct_of_no_recompute": "100"}]
    paper = tables.Table(summary.PAPER, rows, [
        Prediction("s", "p", "w", None, None, memory=(2**30, size)) for size in (2**29, 2**30)
    ], [(4, "why")])  # fmt: skip
    assert summary.paper_lines([GOOD, paper]) == [("22B", "both", "20.0%", "10.0%")]
    assert "| 22B | both | 20.0% | 10.0% |" in blocks.paper_table([paper])
    assert summary.lines([GOOD, paper]) == summary.lines([GOOD])
    assert str(summary.numbers([GOOD, paper])) == str(summary.numbers([GOOD])), "nan is not nan"
    assert blocks.program_rows([GOOD, paper]) == blocks.program_rows([GOOD])
    assert "All 3 rows" in coverage.refused([GOOD, paper])
    assert summary.missed([paper]) == summary.missed([])


def test_numbers_of_no_programs():
    found = summary.numbers([])
    assert (found["programs_rows"], found["programs_tables"]) == (0, 0)


def test_folders_are_read_by_name(tmp_path):
    for name in ("b.csv", "a.csv", "c.txt"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    other = tmp_path / "c.txt"
    assert [p.name for p in tables.find_files([tmp_path, other])] == ["a.csv", "b.csv", "c.txt"]


def test_every_measured_family_has_a_title():
    titled = {name for name, family in tables.FAMILIES.items() if hasattr(family, "TITLE")}
    assert titled == {*tables.FAMILIES} - {summary.PAPER}

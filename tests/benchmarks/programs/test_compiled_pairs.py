"""Published pairs, eager and compiled: the record, what it comes to, and what the page says."""

import re
from dataclasses import replace

import pytest
from support.paths import ROOT

from benchmarks.compiled import record, runs, table
from benchmarks.compiled.__main__ import main
from benchmarks.compiled.pairs import GIB, Pair, read
from benchmarks.published.page import write
from benchmarks.published.page.programs import compiled

PAIR = Pair(
    "course", "--seq 128", "--gpu a100", "a model", 4096, "tokens/s", 4096.0, 8192.0, 2.0, 1.0,
    "reserved", "key", "source", "development",
)  # fmt: skip
ROWS = [
    record.Row(PAIR, (1.0, 0.5), (2 * GIB, GIB)),  # as published
    record.Row(replace(PAIR, unit="ms", memory=""), (0.9, 1.0), (GIB, GIB)),  # 0.9, not 0.5
    record.Row(PAIR, (1.5, 1.0), (GIB, GIB)),  # 1.5, not 2
]


def same(row):
    """Return whether a pair gives now what is recorded."""
    now = record.row_of(row.pair, runs.run(row.pair))
    return now.seconds == pytest.approx(row.seconds) and now.peaks == row.peaks


def test_rates_and_times_become_seconds():
    assert PAIR.seconds == (1.0, 0.5)
    assert replace(PAIR, unit="ms").seconds == (4.096, 8.192)
    assert PAIR.peaks == (2 * GIB, GIB)
    assert replace(PAIR, memory="").peaks is None


def test_errors_are_those_of_the_ratio():
    assert [round(row.error, 3) for row in ROWS] == [0, 0.8, -0.25]
    assert table.median_error(ROWS) == 0.25
    assert table.largest_error(ROWS) == 0.8 == pytest.approx(ROWS[1].error)
    assert table.outside(ROWS) == ROWS[1:]
    assert "3 pairs: error of the ratio 25.0% in the median, at most +80.0%" in table.summary(ROWS)


def test_a_row_shows_the_prediction_and_in_brackets_what_was_published():
    cells = (
        "a model",
        "2.00 (2.00)",
        "+0%",
        "1,000 (1,000)",
        "500 (500)",
        "2.0 (2.0)",
        "1.0 (1.0)",
    )
    assert table.cells(ROWS[0]) == cells
    assert table.cells(ROWS[1])[-2:] == ("", "")


def test_the_peak_that_was_published_is_recorded():
    found = [{"seconds": 2.0, "allocated": 5, "reserved": 7, "kind": None}] * 2
    assert record.row_of(PAIR, found).peaks == (7, 7)
    assert record.row_of(replace(PAIR, memory=""), found).peaks == (5, 5)


def test_all_published_pairs_are_recorded_with_their_sources():
    references = (ROOT / "references.bib").read_text(encoding="utf-8")
    rows = record.read()
    assert [row.pair for row in rows] == read()
    assert len({(row.pair.program, row.pair.options) for row in rows}) == len(rows)
    for row in rows:
        assert f"{{{row.pair.key}," in references, row.pair.key
        assert row.pair.source, row.pair.what
        assert row.published_ratio > 1, row.pair.what


def test_the_record_is_written_as_it_is_read(tmp_path):
    record.write(record.read(), tmp_path / "pairs.json")
    assert (tmp_path / "pairs.json").read_bytes() == record.PATH.read_bytes()


def test_the_page_has_the_recorded_pairs_and_their_errors():
    page = (ROOT / write.PAGE).read_text(encoding="utf-8")
    section = page.partition("### Compiled pairs")[2].partition("\n## ")[0]
    assert compiled.pairs_table() in section
    rows = record.read()
    assert f"{table.median_error(rows):.1%} in the median" in section
    assert int(re.search(r"(\d+) pairs are off", section)[1]) == len(table.outside(rows))
    assert all(compiled.claims().values())


def test_the_page_is_not_written_if_another_program_is_far_off(monkeypatch):
    rows = record.read()
    first = replace(rows[0], seconds=(rows[0].seconds[0] * 1.5, rows[0].seconds[1]))
    monkeypatch.setattr(record, "read", lambda: [first, *rows[1:]])
    broken = [words for words, holds in compiled.claims().items() if not holds]
    assert "compiled: only short and long forward passes of the course are far off" in broken


@pytest.mark.long
@pytest.mark.process
@pytest.mark.slow
def test_a_small_pair_runs_as_recorded(capsys):
    text = "small --seq 128 --forward"
    (row,) = (one for one in record.read() if one.pair.options == f"--size {text}")
    assert same(row)
    before = record.PATH.read_bytes()
    main([text])
    assert f"{row.error:+7.1%}  {row.ratio:.2f}" in capsys.readouterr().out
    assert record.PATH.read_bytes() == before, "a part of the pairs writes no record"


@pytest.mark.process
@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.parametrize("row", record.read(), ids=lambda row: row.pair.what)
def test_all_pairs_run_as_recorded(row):
    assert same(row)


@pytest.mark.process
@pytest.mark.slow
def test_a_program_that_fails_is_named():
    with pytest.raises(RuntimeError, match=r"programs\.course --seq nonsense"):
        runs.run(replace(PAIR, options="--seq nonsense"))

"""Published runs to repeat: the record, and what the page says of them."""

from dataclasses import replace

import pytest
from support.paths import ROOT

from benchmarks.compiled import pairs
from benchmarks.compiled.runs import run_once
from benchmarks.gallery import record, runs
from benchmarks.gallery.__main__ import main
from benchmarks.published.page import write
from benchmarks.published.page.programs import gallery

ROWS = record.read()


def test_rates_and_times_become_seconds():
    run = replace(ROWS[0].run, tokens=4096, published=2048.0, unit="tokens/s")
    assert run.seconds == 2.0
    assert replace(run, unit="ms").seconds == 2.048


def test_every_run_is_recorded_with_its_source():
    references = (ROOT / "references.bib").read_text(encoding="utf-8")
    assert [row.run for row in ROWS] == runs.read()
    assert len({row.run.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert f"{{{row.run.key}," in references, row.run.key
        assert row.run.gpus in (1, 4, 8)


def test_runs_that_are_pairs_too_have_their_numbers():
    found = {}
    for pair in pairs.read():
        found[pair.key, pair.eager] = found[pair.key, pair.compiled] = pair.seconds
    same = [row for row in ROWS if (row.run.key, row.run.published) in found]
    assert len(same) == 6
    for row in same:
        assert row.run.seconds in found[row.run.key, row.run.published]


def test_the_record_is_written_as_it_is_read(tmp_path):
    record.write(ROWS, tmp_path / "gallery.json")
    assert (tmp_path / "gallery.json").read_bytes() == record.PATH.read_bytes()


def test_the_page_has_all_runs_and_its_words_hold():
    page = (ROOT / write.PAGE).read_text(encoding="utf-8")
    assert gallery.tables() in page
    assert all(gallery.claims().values())


@pytest.mark.parametrize(
    ("place", "change", "broken"),
    [
        (2, {"seconds": 10.0}, "the large changes go the way that they went"),
        (-1, {"seconds": 10.0}, "runs outside their bands took longer"),
    ],
)
def test_the_page_is_not_written_if_its_words_are_wrong(monkeypatch, place, change, broken):
    rows = list(ROWS)
    rows[place] = replace(rows[place], **change)
    monkeypatch.setattr(record, "read", lambda: rows)
    claims = gallery.claims()
    assert not claims[f"gallery: {broken}"], claims


@pytest.mark.process
@pytest.mark.slow
def test_a_run_is_as_recorded(monkeypatch, capsys):
    row = next(one for one in ROWS if one.run.options.endswith("--fused-attention"))
    monkeypatch.setattr(runs, "read", lambda: [row.run])
    before = record.PATH.read_bytes()
    main([row.run.options])
    assert f"{row.seconds * 1e3:,.1f} ms" in capsys.readouterr().out
    assert record.PATH.read_bytes() == before, "a part of the runs writes no record"


@pytest.mark.process
@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.run.name)
def test_all_runs_are_as_recorded(row):
    again = record.row_of(row.run, run_once(row.run))
    assert (again.seconds, again.peak) == (pytest.approx(row.seconds), row.peak)

"""The record of other people's trainers, and what runs them again."""

import json

import pytest

from benchmarks.programs import __main__ as command
from benchmarks.programs import runs
from benchmarks.programs.programs import Program, read
from benchmarks.programs.table import table

PROGRAM = Program("tiny", "me/tiny", "abc1234", "sub", "x.py --to {out}", "A={data}/b B=1", "none")
SUMMARY = {"hardware": "1 x a100", "step_time_seconds": 0.01234321, "peak_memory_bytes": {"0": 7}}


def test_all_programs_were_run_as_they_are_listed():
    programs = {program.name: program for program in read()}
    rows = {row["name"]: row for row in runs.read()}
    assert rows.keys() == programs.keys()
    for name, row in rows.items():
        assert (row["version"], row["command"]) == (programs[name].version, programs[name].command)


def test_a_command_has_folders_and_variables():
    assert PROGRAM.arguments(data="D", out="O") == ["x.py", "--to", "O"]
    assert PROGRAM.variables(data="D", out="O") == {"A": "D/b", "B": "1"}


def test_what_a_run_came_to():
    out = f"epoch 1\n50 %{json.dumps(SUMMARY)}\nend\n"
    found = runs.outcome(0, out, "")
    assert found == {"result": "ran", "step_seconds": 0.01234, "peak_bytes": 7}
    errors = "[rank0]: Traceback\n[rank1]: TypeError: not so\n[rank1]: on rank 1, at x.py:3\n"
    assert runs.outcome(1, out, errors)["result"] == "TypeError: not so"
    assert runs.outcome(0, "", "a\n")["result"] == "no summary"


@pytest.fixture
def record(monkeypatch, tmp_path):
    monkeypatch.setattr(runs, "PATH", tmp_path / "runs.json")
    monkeypatch.setattr(command, "read", lambda: [PROGRAM])
    monkeypatch.setattr("benchmarks.programs.table.read", lambda: [PROGRAM])
    return tmp_path


def test_only_programs_whose_source_is_at_hand_run_again(record, monkeypatch, capsys):
    row = {"name": "tiny", "version": "abc1234", "command": PROGRAM.command, "seconds": 3}
    row |= {"date": "2026-01-02", **runs.outcome(0, json.dumps(SUMMARY), "")}
    monkeypatch.setattr(runs, "run", lambda program, sources: row)
    command.main([str(record)])
    assert runs.read() == []
    (record / "tiny").mkdir()
    command.main([str(record)])
    assert runs.read() == [row]
    assert "| me/tiny: tiny | abc1234 | ran | 12.3 ms | 7 B | 3 s | 2026-01-02 |" in (
        capsys.readouterr().out
    )


def test_the_table_has_a_line_for_each_run():
    assert table(runs.read()).count("\n") == 1 + len(read())

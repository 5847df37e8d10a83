"""What a run with values says while nothing happens."""

import sys
import time

import pytest

from simgpu.run import command
from simgpu.run.steps import Steps

HINT = "simgpu run: no step has ended in 0.05 s; --shapes-only computes times alone\n"


@pytest.mark.parametrize(
    ("seen", "shapes_only", "ended", "text"),
    [
        (True, False, False, HINT),
        (False, False, False, ""),
        (True, True, False, ""),
        (True, False, True, ""),
    ],
)
def test_who_waits_is_told_once(monkeypatch, capsys, seen, shapes_only, ended, text):
    monkeypatch.setattr(command, "PATIENCE", 0.05)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: seen)
    steps = Steps()
    if ended:
        steps._ends[0].append([])
    with command.hint(steps, shapes_only):
        time.sleep(0.3)
    assert capsys.readouterr().err == text
    with command.hint(steps, shapes_only):
        pass  # the run was short
    assert capsys.readouterr().err == ""

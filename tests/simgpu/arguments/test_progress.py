"""The line that says how far a command is."""

import re
import sys
import time

import pytest

from simgpu.command_line import Progress, progress


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ((0, 4), "part 0 of 4, 0:30"),
        ((3, 4), "part 3 of 4, 0:30, about 0:10 left"),
        ((3, None), "part 3, 0:30"),
    ],
)
def test_the_rest_takes_as_long_as_what_is_done(counts, text):
    assert Progress("part", lambda: counts).text(30) == text


def test_the_line_lives_while_nothing_ends(monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Progress("step", lambda: (1, 2)):
        time.sleep(0.2)
    said = capsys.readouterr().err.split("\r")
    lines = [line for line in said if line.strip()]
    assert len(lines) > 1
    assert all(re.fullmatch(r"step 1 of 2, 0:00, about 0:00 left *", line) for line in lines)
    assert not said[-2].strip(), "nothing of it is left"


def test_nobody_looks_at_a_pipe(monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.01)
    with Progress("step", lambda: (1, 2)):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""

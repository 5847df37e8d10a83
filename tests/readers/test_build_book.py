"""How far the build of the book is."""

import sys

import pytest

from tools import build_book

SPHINX = """
for stage in "reading sources", "writing output":
    for percent in 50, 100:
        print(f"{stage}... [{percent:3}%] a/page")
raise SystemExit(3)
"""


@pytest.mark.process
@pytest.mark.parametrize("seen", [True, False])
def test_a_terminal_sees_how_far_sphinx_is(monkeypatch, capsys, seen):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: seen)
    monkeypatch.setattr("tqdm.tqdm.monitor_interval", 0)
    status, output = build_book.follow([sys.executable, "-c", SPHINX])
    assert status == 3
    assert output.splitlines()[-1] == "writing output... [100%] a/page"
    assert ("book: " in capsys.readouterr().err) == seen

"""The README: what it names is there."""

import importlib.util
import re

import nbformat
import pytest
from support.paths import ROOT

from tools.words.lines import time_line

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / name for name in ("README.md", "teaching.md", "translating.md", "Containerfile")]


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", TEXT))
def test_links_lead_somewhere(target):
    assert (ROOT / target).exists()


def test_commands_are_there():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"(?:`|^|&& )make ([a-z-]+)", text, re.MULTILINE))
    assert {"book", "lab", "wheels", "student"} <= named
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert named <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    modules = set(re.findall(r"-m ((?:tools|d2lmini|benchmarks)[\w.]*)", text))
    assert {"tools.classroom", "tools.editions"} <= modules
    for module in modules:
        assert importlib.util.find_spec(module), module


def test_chapters_run_in_one_or_two_minutes():
    assert "a chapter runs in one or two\nminutes" in TEXT
    for path in (ROOT / "chapters").glob("*.ipynb"):
        first = nbformat.read(path, as_version=4).cells[0].source
        assert int(time_line(first)["run"]) in (1, 2), path.name

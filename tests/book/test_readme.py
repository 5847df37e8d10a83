"""The README: what it names is there; each chapter has its minutes and its memory."""

import importlib.util
import os
import re
import subprocess
import sys
import time

import pytest
from support.paths import ROOT

from tools import costs, make

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / name for name in ("README.md", "teaching.md", "translating.md", "Containerfile")]


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", TEXT))
def test_links_lead_somewhere(target):
    assert (ROOT / target).exists()


def test_commands_are_there():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"(?:`|^|&& |tools\.)make ([a-z-]+)", text, re.MULTILINE))
    assert {"book", "lab", "wheels", "student"} <= named
    assert named - {"help", "clean"} <= set(make.COMMANDS)
    modules = set(re.findall(r"-m ((?:tools|d2lmini|benchmarks)[\w.]*)", text))
    assert {"tools.classroom", "tools.translation", "tools.costs"} <= modules
    for module in modules:
        assert importlib.util.find_spec(module), module


def test_every_chapter_has_minutes_and_memory():
    rows = {path: (title, int(minutes), float(memory)) for title, path, minutes, memory in
            costs.ROW.findall(TEXT)}  # fmt: skip
    paths = {f"chapters/{path.name}" for path in (ROOT / "chapters").glob("*.ipynb")}
    assert set(rows) == paths, "python -m tools.costs writes them"
    for path, (title, minutes, memory) in rows.items():
        now = costs.title_of(ROOT / path)
        assert title == now, "python -m tools.costs --titles writes them"
        assert 1 <= minutes <= 10
        assert 0.1 < memory < 16


def test_rows_are_replaced_and_added(tmp_path):
    old = "| [A](chapters/a.ipynb) | 3 min | 0.5 GB |"
    text = f"before\n{costs.BEGIN}\n{old}\n{costs.END}\nafter"
    new = "| [A](chapters/a.ipynb) | 4 min | 1.5 GB |"
    more = "| [B](chapters/b.ipynb) | 1 min | 0.7 GB |"
    changed = costs.update(text, [new, more])
    assert costs.ROW.findall(changed) == [
        ("A", "chapters/a.ipynb", "4", "1.5"),
        ("B", "chapters/b.ipynb", "1", "0.7"),
    ]
    assert changed.startswith("before\n")
    assert changed.endswith("\nafter")
    assert costs.update(changed, [more]) == changed


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="only Linux says it")
def test_memory_is_that_of_all_processes_below():
    code = "import sys; x = bytearray(b'1' * 150_000_000); print(1, flush=True); sys.stdin.read()"
    with costs.Peak(pause=0.05) as peak:
        started = [
            subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            for _ in range(2)
        ]
        for process in started:
            process.stdout.readline()
        end = time.monotonic() + 30
        while peak.bytes < 300e6 and time.monotonic() < end:
            time.sleep(0.05)
        for process in started:
            process.communicate()
    assert 300e6 < peak.bytes < 900e6


def test_a_row_says_what_was_measured():
    path = ROOT / "chapters" / "devices.ipynb"
    assert costs.ROW.match(costs.row(path, 2, 1.21e9))[4] == "1.3"


def test_titles_are_renewed():
    text = "| [Old](chapters/devices.ipynb) | 1 min | 0.5 GB |"
    title = costs.title_of(ROOT / "chapters" / "devices.ipynb")
    assert costs.with_titles(text) == text.replace("[Old]", f"[{title}]")

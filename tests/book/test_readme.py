"""The README: what it names is there; each chapter has its minutes and its memory."""

import importlib.util
import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest
from support.paths import ROOT

from tools import costs

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
    assert {"tools.classroom", "tools.editions", "tools.costs"} <= modules
    for module in modules:
        assert importlib.util.find_spec(module), module


def test_every_chapter_has_its_minutes_and_its_memory():
    assert costs.update(TEXT, {}) == TEXT, "python -m tools.costs --minutes writes them"
    rows = {path: memory for _, path, _, memory in costs.ROW.findall(TEXT)}
    assert set(rows) == {f"chapters/{path.name}" for path in (ROOT / "chapters").glob("*.ipynb")}
    measured = [float(memory.split()[0]) for memory in rows.values() if memory != costs.UNKNOWN]
    assert measured
    assert all(0.1 < gigabytes < 16 for gigabytes in measured)


def test_what_was_measured_is_written_and_the_rest_kept():
    path = ROOT / "chapters" / "devices.ipynb"
    start, _, rest = TEXT.partition(costs.BEGIN)
    changed = costs.update(TEXT, {path: 1.21e9})
    rows = {path: memory for _, path, _, memory in costs.ROW.findall(changed)}
    old = {path: memory for _, path, _, memory in costs.ROW.findall(TEXT)}
    assert rows == {**old, "chapters/devices.ipynb": "1.3 GB"}
    assert changed.startswith(start)
    assert changed.endswith(rest.partition(costs.END)[2])


only_linux = pytest.mark.skipif(
    not os.path.exists("/proc/self/smaps_rollup"), reason="only Linux says it"
)


@pytest.mark.process
@only_linux
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


@pytest.mark.process
@only_linux
def test_a_mapped_file_counts_once_and_in_full(tmp_path):
    path = tmp_path / "library"
    path.write_bytes(b"1" * 100_000_000)
    code = f"import mmap, sys; file = open({str(path)!r}); "
    code += "mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ); sum(mapped[::4096]); "
    code += "print(1, flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code]
    with ExitStack() as started:
        numbers, sizes = [], []
        for _ in range(3):
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            started.enter_context(process)
            process.stdout.readline()
            numbers.append(process.pid)
            sizes.append(costs.memory(numbers[:1]))
        assert min(sizes) > 100e6
        assert max(sizes) < 1.05 * min(sizes), "what runs beside it changes nothing"
        assert costs.memory(numbers) < min(sizes) + 90e6

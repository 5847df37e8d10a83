"""The book with cells that run, started as its readers start it: `make live`, until Ctrl-C."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
from support.browser import wait_for
from support.lab import variables
from support.paths import ROOT

CELL = "[...document.querySelectorAll('div.cell')].find(e => e.querySelector('textarea')?.value"
STATUS = "document.querySelector('.d2l-live-bar [role=status]').textContent"
STAMP = "from tools.setup_env import STAMP, wanted; STAMP.write_bytes(wanted())"


def checkout(folder):
    """Have `make` work in a folder, on what is there, in the environment that runs the tests."""
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    (folder / "tools").symlink_to(ROOT / "tools")
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    subprocess.run([sys.executable, "-c", STAMP], cwd=folder, check=True)
    return folder


def start(folder, home, *arguments):
    """Call `make live` in a folder; return its process, its address and its token."""
    log = home / "log"
    options = " ".join(["--port 0", "--no-browser", *arguments])
    with log.open("w") as output:
        process = subprocess.Popen(
            ["make", "live", f"PYTHON={sys.executable}", f"ARGS={options}"],
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=variables(home),
            start_new_session=True,
        )
    pattern = r"(http://127\.0\.0\.1:\d+)/book/index.html\?token=(\w+)"

    def address():
        return process.poll() is not None or re.search(pattern, log.read_text())

    try:
        found = wait_for(address, 300, "make live")
        assert process.poll() is None, log.read_text()
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise
    return SimpleNamespace(process=process, address=found[1], token=found[2], log=log)


def end(live):
    """Press Ctrl-C, which reaches all that a terminal has started; wait for the end."""
    os.killpg(live.process.pid, signal.SIGINT)
    live.process.wait(30)


def below(number):
    """Return the ids of the processes that a process has started, and of those they have."""
    return [process.pid for process in psutil.Process(number).children(recursive=True)]


def is_alive(number):
    """Say whether a process runs."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def edit(tab, beginning, text):
    """Write into the cell that begins in some way; return an expression for the cell."""
    found = f"{CELL}.startsWith({json.dumps(beginning)}))" if beginning else f"{CELL} === '')"
    name = "window.edited = (window.edited || 0) + 1, window['cell' + window.edited] = " + found
    tab.ask(f"{name}, null")
    cell = f"window['cell{tab.ask('window.edited')}']"
    area = f"{cell}.querySelector('textarea')"
    tab.ask(f"{area}.value = {json.dumps(text)}, {area}.dispatchEvent(new Event('input')), null")
    return cell


def press(tab, cell):
    """Press Shift+Enter in a cell."""
    event = "new KeyboardEvent('keydown', {key: 'Enter', shiftKey: true, cancelable: true})"
    tab.ask(f"{cell}.querySelector('textarea').dispatchEvent({event}), null")


def shown(tab, cell):
    """Return what a cell shows."""
    return tab.ask(f"{cell}.querySelector('.cell_output')?.textContent || ''")

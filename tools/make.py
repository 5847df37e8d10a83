"""What make calls, and what takes its place where it is not there.

``python -m tools.make book`` does what ``make book`` does. Like `tools.setup_env`, this runs under
any Python.
"""
# ruff: noqa: RUF005

import os
import shutil
import signal
import subprocess
import sys

from tools import setup_env

BOOK = ["tools/build_book.py"]
LINT = [
    ["-m", "ruff", "check", "."],
    ["-m", "ruff", "format", "--check", "."],
    ["-m", "tools.notebooks", "--check"],
]
NBVAL = ["-m", "pytest", "--nbval", "--nbval-cell-timeout", "600", "--nbval-sanitize-with"]
TEST = NBVAL + ["tests/sanitise.cfg", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
TEST += ["--doctest-modules", "--ignore-glob", "*_plain.py"]  # scripts of torchrun alone
for name in ("ddp_*", "pipeline", "tensor_parallel"):
    TEST += ["--ignore-glob", f"*/scripts/{name}.py"]
TEST += ["chapters", "d2lmini", "simgpu", "tests"]
NOTEBOOKS = "_build/notebooks"  # for readers, who work there
DOUBLE = "tests/book/test_chapters_on_gpus.py"

# What the Python of .venv is called with, one after the other.
COMMANDS = {
    "setup": [],
    "book": [BOOK],
    "test": LINT + [TEST, BOOK],
    "test-gpu": [NBVAL + ["tests/sanitise-gpu.cfg", "chapters"]],
    "test-double": [["-m", "pytest", "-n", "2", "-m", "long", DOUBLE]],
    "test-another-day": [["-m", "pytest", "-m", "", "tests/book/test_another_day.py"]],
    "torture": [["-m", "pytest", "-n", "2", "-m", "torture", "tests"]],
    "lint": LINT,
    "outputs": [["-m", "tools.notebooks", "--run"]],
    "notebooks": [["-m", "tools.readers"]],
    "lab": [["-m", "tools.readers", "--trust"], ["-m", "jupyterlab", NOTEBOOKS + "/intro.ipynb"]],
    "live": [["-m", "tools.live"]],
    "edit": [["-m", "jupyterlab", "chapters"]],
    "student": [["-m", "tools.classroom", "student"]],
    "wheels": [["-m", "tools.wheels"]],
    "bench": [["-m", "benchmarks"]],
    "bench-check": [["-m", "benchmarks", "--check"]],
    "pdf": [BOOK, ["-m", "tools.pdf"]],
    "screenshots": [BOOK, ["-m", "tools.screenshots"]],
}

# Reproducible: simulated GPUs, whose times and outputs are the same on every machine.
SIMULATED = {"D2LMINI_GPUS": "sim", "OMP_NUM_THREADS": "1"}
VARIABLES = {
    "test": SIMULATED,
    "test-double": SIMULATED,
    "torture": SIMULATED,
    "outputs": SIMULATED,
    "test-gpu": {"D2LMINI_GPUS": "auto"},
}


def environment(name):
    """Return the variables that a command is run with."""
    variables = dict(os.environ, **VARIABLES.get(name, {}))
    if variables.get("D2LMINI_DATA"):  # notebooks would look for a relative folder in chapters/
        variables["D2LMINI_DATA"] = os.path.abspath(variables["D2LMINI_DATA"])
    return variables


def run(call, variables):
    """Run a Python of .venv to its end; return its exit status."""
    # Ctrl-C reaches it as well, and what it does about it is its own affair.
    handler = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        return subprocess.call([setup_env.python()] + call, env=variables)
    finally:
        signal.signal(signal.SIGINT, handler)


def clean():
    """Remove what was built; .venv stays, and so do notebooks that a reader has changed."""
    for folder in (".pytest_cache", ".ruff_cache", ".hypothesis"):
        shutil.rmtree(folder, ignore_errors=True)
    kept = changed_notebooks()
    if not kept:
        shutil.rmtree("_build", ignore_errors=True)
        return
    for name in os.listdir("_build"):
        path = os.path.join("_build", name)
        if path != os.path.normpath(NOTEBOOKS):
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    sys.stdout.write("clean: {} stays, for your changes in {}\n".format(NOTEBOOKS, ", ".join(kept)))


def changed_notebooks():
    """Return the names of the built notebooks, and of files beside them, that were changed."""
    if not os.path.isdir(NOTEBOOKS):
        return []
    from pathlib import Path

    from tools.readers import place

    return place.changed(Path(NOTEBOOKS))


def main(name="", *arguments):
    """Run a command, its last part with further arguments; return the exit status."""
    if name == "clean":
        return clean() or 0
    if name not in COMMANDS:
        sys.stderr.write("name one of: {}, clean\n".format(", ".join(COMMANDS)))
        return 2
    setup_env.main()
    calls = [list(call) for call in COMMANDS[name]]
    if calls:
        calls[-1] += arguments
    for call in calls:
        status = run(call, environment(name))
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

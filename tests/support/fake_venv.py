"""What `python -m venv` and the pip in it are to a test: quick, and halting where they are told.

As ``venv.py`` in a folder of PYTHONPATH it comes before Python's own. Every step is a line in
``$FAKE/log``; the step named in ``$HALT`` lasts until there is a file ``$FAKE/go``. Its pip is as
helpless before what an interrupted one left as the real one can be.
"""

import os
import shutil
import sys
import time
from pathlib import Path


def enter(step):
    folder = Path(os.environ["FAKE"])
    with open(folder / "log", "a", encoding="utf-8") as log:
        log.write(step + "\n")
    while os.environ.get("HALT") == step and not (folder / "go").exists():
        time.sleep(0.01)


def create(folder):
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bin").mkdir(parents=True)
    version = "version = {}.{}.{}\n".format(*sys.version_info[:3])
    (folder / "pyvenv.cfg").write_text(version, encoding="utf-8")
    enter("venv")
    python = folder / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)


def install(what, folder):
    half = folder / "half-installed"
    if half.exists():
        sys.exit("this is half an installation")
    half.touch()
    enter(what)
    half.unlink()
    with open(folder / "packages", "a", encoding="utf-8") as packages:
        packages.write(what + "\n")


if __name__ == "__main__":
    if sys.argv[1:3] == ["-m", "pip"]:
        install(sys.argv[-1], Path(".venv"))
    else:
        create(Path(sys.argv[-1]))

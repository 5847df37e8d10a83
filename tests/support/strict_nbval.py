"""Run a notebook under strict nbval in a kernel that begins with a program of one's own."""

import os
import subprocess
import sys

from support.paths import PYTHONPATH, ROOT, TESTS


def run(notebook, folder, startup, sanitise, **variables):
    """Compare a notebook's outputs with the stored ones; return the finished process.

    Parameters
    ----------
    notebook : path-like
    folder : pathlib.Path
        An empty one, for IPython's profile.
    startup : str
        What the kernel runs before the first cell.
    sanitise : str
        Name of the file in ``tests/`` that says what may differ.
    **variables
        Of the environment.
    """
    place = folder / "profile_default" / "startup"
    place.mkdir(parents=True)
    (place / "00-first.py").write_text(startup, encoding="utf-8")
    env = os.environ | {"IPYTHONDIR": str(folder), "PYTHONPATH": PYTHONPATH} | variables
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += ["--nbval", "--nbval-sanitize-with", str(TESTS / sanitise)]
    command += ["--nbval-cell-timeout", "300", "--timeout", "400", str(notebook)]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)

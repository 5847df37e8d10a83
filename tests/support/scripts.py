"""Start a script of the book, and read what it prints."""

import re
import subprocess

from d2lmini.ddp import launcher_environment


def losses_and_norms(command):
    """Return the losses and norms that a command prints, in order."""
    env = launcher_environment(threads=1) | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return [float(x) for x in re.findall(r"(?:loss|norm) ([0-9.]+)", done.stdout)]

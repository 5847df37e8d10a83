"""Running a pair: a program by itself and with ``--compile``, each on simulated GPUs."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.published.families.torchtitan import GPU
from simgpu.bands.kinds import Kind
from simgpu.hardware import gpu_file, host

ROOT = Path(__file__).parents[2]
PROGRAMS = "benchmarks.compiled.programs"
COURSE = "course"  # which ran on the host of `SLOW`


def run(pair) -> tuple:
    """Return what the program of a `Pair` prints, a dict, and its kind, eager and compiled."""
    return run_once(pair), run_once(pair, "--compile")


def with_host(pair):
    """Return the seconds of an eager step on the host of `SLOW`, if it is that program's."""
    if pair.program != COURSE:
        return None
    return run_once(pair, launch=("--host", host.option(host.SLOW)))["seconds"]


def run_once(pair, *more, launch=()):
    """Return what the program of a `Pair`, or of a run of the gallery, prints, and its kind."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "simgpu", "run", *_launch(pair, Path(folder)), *launch,
                   "--shapes-only", "--summary", "json", "-m", f"{PROGRAMS}.{pair.program}",
                   *pair.options.split(), *more]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(lines[0]) | {"kind": Kind(**json.loads(lines[-1])["kind"])}


def _launch(pair, folder):
    """Return the options, with torchtitan's GPU, which is no preset, as a file."""
    path = folder / f"{GPU.name}.json"
    gpu_file.write(path, GPU)
    return [str(path) if word == GPU.name else word for word in pair.launch.split()]

"""Runs of the programs whose source is at hand, and their record."""

import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

import torch

import simgpu as sim

ROOT = Path(__file__).parents[2]
PATH = ROOT / "records" / "programs" / "runs.json"
LONGEST = 900  # seconds
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "WANDB_MODE": "disabled"}


def run(program, sources) -> dict:
    """Run a program from its folder in `sources`; return what the record has of it.

    Parameters
    ----------
    program : Program
    sources : path-like
        It has a folder for each program, and ``data`` for what was made up.
    """
    sources = Path(sources).resolve()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        folders = {"data": sources / "data", "out": out}
        command = [sys.executable, "-m", "simgpu", "run", "--summary", "json"]
        done = subprocess.run(
            [*command, *program.arguments(**folders)],
            cwd=sources / program.name / program.folder,
            env=_environment(program.variables(**folders)),
            capture_output=True, text=True, timeout=LONGEST, errors="replace",
        )  # fmt: skip
    return {
        "name": program.name,
        "version": program.version,
        "command": program.command,
        **outcome(done.returncode, done.stdout, done.stderr),
        "seconds": round(time.perf_counter() - began),
        "date": datetime.now(timezone.utc).date().isoformat(),
        "torch": torch.__version__,
        "simgpu": sim.__version__,
    }


def outcome(code, stdout, stderr) -> dict:
    """Return what has become of a run: its step, or the error that ended it."""
    _, begins, summary = stdout.rpartition('{"hardware"')
    if code or not begins:
        return {"result": _error(stderr), "step_seconds": None, "peak_bytes": None}
    found, _ = json.JSONDecoder().raw_decode(begins + summary)
    return {
        "result": "ran",
        "step_seconds": float(f"{found['step_time_seconds']:.4g}"),
        "peak_bytes": max(found["peak_memory_bytes"].values()),
    }


def read() -> list:
    """Return the record."""
    return json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else []


def write(rows) -> None:
    """Write the record, one program a line."""
    lines = ",\n".join(json.dumps(row) for row in rows)
    PATH.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _environment(variables):
    """Return the environment of a run, where paths of the program come after this repository."""
    paths = [str(ROOT), variables.get("PYTHONPATH", "")]
    own = {**OFFLINE, **variables, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return os.environ | {"OMP_NUM_THREADS": "1"} | own


def _error(stderr):
    """Return the last line that a rank has printed of an error, without its rank."""
    lines = [line for line in stderr.splitlines() if line.startswith("[rank")]
    errors = [line.partition(": ")[2] for line in lines if "Error: " in line]
    return errors[-1] if errors else "no summary"

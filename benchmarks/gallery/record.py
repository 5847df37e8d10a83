"""The record of the gallery: what `simgpu run` says of each published run."""

import json
from dataclasses import astuple, dataclass
from itertools import groupby
from pathlib import Path

from benchmarks.gallery import runs
from simgpu.bands.kinds import Kind

PATH = Path(__file__).parents[2] / "records" / "published" / "gallery.json"


@dataclass(frozen=True)
class Row:
    """A published run and its prediction.

    Attributes
    ----------
    run : runs.Run
    seconds : float
        Predicted seconds of a step.
    peak : int
        Predicted peak of memory in bytes, of the kind that was published or else as allocated.
    kind : Kind
        Of the simulated run.
    """

    run: runs.Run
    seconds: float
    peak: int
    kind: Kind

    @property
    def ratio(self) -> float:
        """Published over predicted seconds."""
        return self.run.seconds / self.seconds


def row_of(run, found) -> Row:
    """Return the `Row` of what `benchmarks.compiled.runs.run_once` has found."""
    return Row(run, found["seconds"], found[run.memory or "allocated"], found["kind"])


def write(rows, path=PATH):
    """Write rows, one on each line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(_line(row)) for row in rows)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _line(row):
    return {
        "run": row.run.name,
        "what": row.run.what,
        "source": row.run.source,
        "use": row.run.use,
        "published_seconds": row.run.seconds,
        "seconds": row.seconds,
        "bytes": row.peak,
        "kind": astuple(row.kind),
    }


def read(path=PATH) -> list[Row]:
    """Return the recorded rows of the published runs, in their order.

    Raises
    ------
    KeyError
        If a run is not recorded; run ``python -m benchmarks.gallery``.
    """
    lines = {one["run"]: one for one in json.loads(path.read_text(encoding="utf-8"))}
    found = [(run, lines[run.name]) for run in runs.read()]
    return [Row(run, one["seconds"], one["bytes"], Kind(*one["kind"])) for run, one in found]


def by_program(rows) -> list:
    """Return the rows of each program, one list after another."""
    return [list(group) for _, group in groupby(rows, key=lambda row: row.run.program)]

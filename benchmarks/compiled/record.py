"""The record of all pairs: what was published, what `simgpu run` says, and how far they are apart.

A step has seconds and peaks of memory in bytes, each eager and compiled.
"""

import json
from dataclasses import astuple, dataclass
from pathlib import Path

from benchmarks.compiled.pairs import Pair
from benchmarks.compiled.pairs import read as published
from simgpu.bands.kinds import Kind

PATH = Path(__file__).parents[2] / "records" / "compiled" / "pairs.json"


@dataclass(frozen=True)
class Row:
    """A pair and its prediction.

    Attributes
    ----------
    pair : Pair
    seconds : tuple of float
        Predicted seconds of a step, eager and compiled.
    peaks : tuple of int
        Predicted peaks of memory in bytes, of the kind that was published or else as allocated.
    kinds : tuple of Kind
        Of the run, eager and compiled.
    hosted : float, optional
        Predicted seconds of an eager step if what the host takes is stated.
    """

    pair: Pair
    seconds: tuple
    peaks: tuple
    kinds: tuple = ()
    hosted: float | None = None

    @property
    def published_ratio(self) -> float:
        """How many times as fast compiled code really was."""
        eager, compiled = self.pair.seconds
        return eager / compiled

    @property
    def ratio(self) -> float:
        """How many times as fast it is predicted to be."""
        eager, compiled = self.seconds
        return eager / compiled

    @property
    def error(self) -> float:
        """Predicted over published ratio, less 1."""
        return self.ratio / self.published_ratio - 1


def row_of(pair, found, hosted=None) -> Row:
    """Return the `Row` of what `runs.run` and `runs.with_host` have found."""
    kind = pair.memory or "allocated"
    values = (tuple(one[name] for one in found) for name in ("seconds", kind, "kind"))
    return Row(pair, *values, hosted)


def write(rows, path=PATH):
    """Write rows, one on each line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(_line(row)) for row in rows)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _line(row):
    pair = row.pair
    return {
        "program": f"{pair.program} {pair.options}".strip(),
        "what": pair.what,
        "source": pair.source,
        "use": pair.use,
        "published_seconds": pair.seconds,
        "published_ratio": round(row.published_ratio, 4),
        "published_bytes": pair.peaks,
        "seconds": row.seconds,
        "ratio": round(row.ratio, 4),
        "bytes": row.peaks,
        "kinds": [astuple(kind) for kind in row.kinds],
    } | ({"seconds_with_host": row.hosted} if row.hosted else {})


def read(path=PATH) -> list[Row]:
    """Return the recorded rows of the published pairs, in their order.

    Raises
    ------
    KeyError
        If a pair is not recorded; run ``python -m benchmarks.compiled``.
    """
    lines = {one["program"]: one for one in json.loads(path.read_text(encoding="utf-8"))}
    found = []
    for pair in published():
        one = lines[f"{pair.program} {pair.options}".strip()]
        kinds = tuple(Kind(*features) for features in one["kinds"])
        values = tuple(one["seconds"]), tuple(one["bytes"]), kinds, one.get("seconds_with_host")
        found.append(Row(pair, *values))
    return found

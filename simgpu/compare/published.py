"""Published steps, and which of them are near to a run.

The distance of two runs is the sum of the logarithms, to base 2, of how many times they differ in
parameters, GPUs and length of sequences. Another GPU adds `OTHER_GPU`, and if only one of the two
has experts, `OTHER_KIND`: more than sizes ever add, so the same GPU comes first, then the same kind
of model.
"""

import csv
from dataclasses import dataclass
from functools import lru_cache
from math import log2
from pathlib import Path

FILE = Path(__file__).with_name("published.csv")
COLUMNS = (
    "billions", "experts", "gpu", "gpus", "sequence", "tokens_per_second_per_gpu", "mfu_percent",
    "source", "what", "reference",
)  # fmt: skip
OTHER_GPU, OTHER_KIND = 1000.0, 100.0
NEAR = 3.0  # for instance, twice as much in each of the three sizes


@dataclass(frozen=True)
class TrainingRun:
    """A run: its sizes, by which runs are near or far, and what a published one reached.

    Attributes
    ----------
    billions : float
        Of parameters.
    experts : bool
        Whether the model is a mixture of experts.
    gpu : str
        Name of the preset.
    gpus, sequence : int
        GPUs in all; tokens of a sequence.
    tokens_per_second_per_gpu : float
    mfu_percent : float, optional
    source, what, reference : str
        Who published it, how it ran, and where it stands.
    """

    billions: float
    experts: bool
    gpu: str
    gpus: int
    sequence: int
    tokens_per_second_per_gpu: float = 0.0
    mfu_percent: float | None = None
    source: str = ""
    what: str = ""
    reference: str = ""


def distance(a, b) -> float:
    """Return how far two runs are from each other; 0 if no size differs."""
    sizes = ("billions", "gpus", "sequence")
    far = sum(abs(log2(getattr(a, name) / getattr(b, name))) for name in sizes)
    return far + OTHER_GPU * (a.gpu != b.gpu) + OTHER_KIND * (a.experts != b.experts)


def nearest(run, count=3, rows=None):
    """Return the nearest published rows, each with its distance, the nearest first."""
    rows = published() if rows is None else rows
    return sorted(((distance(run, row), row) for row in rows), key=lambda pair: pair[0])[:count]


@lru_cache(maxsize=1)
def published() -> tuple:
    """Return all published rows."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return tuple(_run(row) for row in csv.DictReader(file))


def _run(row):
    mfu = row["mfu_percent"]
    return TrainingRun(
        float(row["billions"]), row["experts"] == "1", row["gpu"], int(row["gpus"]),
        int(row["sequence"]), float(row["tokens_per_second_per_gpu"]), float(mfu) if mfu else None,
        row["source"], row["what"], row["reference"],
    )  # fmt: skip

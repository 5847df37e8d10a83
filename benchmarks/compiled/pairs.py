"""The published pairs: which program, on which GPUs, and what its authors measured."""

import csv
from dataclasses import dataclass, fields
from pathlib import Path

PATH = Path(__file__).with_name("pairs.csv")
GIB = 2**30


@dataclass(frozen=True)
class Pair:
    """A program that was measured eager and compiled.

    Attributes
    ----------
    program, options : str
        A module of `programs`, and its arguments.
    launch : str
        Options of ``simgpu run``.
    what : str
        The model and the sizes, for a table.
    tokens : int
        Tokens of a step on each GPU.
    unit : str
        Of the next two: ``ms`` of a step, or ``tokens/s`` of each GPU.
    eager, compiled : float
        As published.
    eager_gib, compiled_gib : float or None
        Peaks of memory, as published.
    memory : str
        What they are: ``allocated``, ``reserved``, or empty.
    key, source : str
        Of references.bib, and where in that source.
    use : str
        ``development``: known while compiled code was built.
    """

    program: str
    options: str
    launch: str
    what: str
    tokens: int
    unit: str
    eager: float
    compiled: float
    eager_gib: float | None
    compiled_gib: float | None
    memory: str
    key: str
    source: str
    use: str

    @property
    def seconds(self) -> tuple:
        """Published seconds of a step, eager and compiled."""
        return self._seconds(self.eager), self._seconds(self.compiled)

    def _seconds(self, value):
        return value / 1e3 if self.unit == "ms" else self.tokens / value

    @property
    def peaks(self) -> tuple | None:
        """Published peaks in bytes, eager and compiled; None if there are none."""
        return (self.eager_gib * GIB, self.compiled_gib * GIB) if self.memory else None


def read(path=PATH) -> list[Pair]:
    """Return the published pairs."""
    with open(path, encoding="utf-8", newline="") as file:
        return [_pair(row) for row in csv.DictReader(file)]


def _pair(row):
    convert = {float: float, int: int, str: str, float | None: lambda text: float(text or "nan")}
    values = {field.name: convert[field.type](row[field.name]) for field in fields(Pair)}
    if not row["memory"]:
        values |= {"eager_gib": None, "compiled_gib": None}
    return Pair(**values)

"""The band of a kind of run, and the words for it."""

import csv
from dataclasses import asdict, astuple, dataclass
from functools import lru_cache
from pathlib import Path

from simgpu.bands.kinds import ENOUGH, FEATURES, SOURCES, Kind, broader
from simgpu.units import quantity

FILE = Path(__file__).with_name("bands.csv")


@dataclass(frozen=True)
class Band:
    """What published rows of a kind took, as multiples of what was predicted.

    Attributes
    ----------
    kind : Kind
        As far as the rows have it in common.
    rows, sources : int
        How many there are, and from how many sources: rows of a source are alike.
    low, high : float
        Between the two lie nine of ten steps, also of sources that have no row here; of fewer than
        `ENOUGH` rows, all of them.
    median : float
    """

    kind: Kind
    rows: int
    sources: int
    low: float
    high: float
    median: float

    @property
    def is_known(self):
        """Whether the rows are enough to say where nine of ten lie."""
        return self.rows >= ENOUGH

    @property
    def span(self):
        """``(low, high)`` if it `is_known`, else None."""
        return (self.low, self.high) if self.is_known else None

    def to_dict(self) -> dict:
        """Return all values, for JSON."""
        return {
            "kind": asdict(self.kind), "published_steps": self.rows, "sources": self.sources,
            "low": self.low, "high": self.high, "median": self.median,
            "nine_of_ten": self.is_known,
        }  # fmt: skip


def find_band(kind, known=None) -> Band | None:
    """Return the band of a kind, by the rule of `simgpu.bands.kinds`.

    If no level has `ENOUGH` rows, that of the last level with any; None if there are none. `known`
    has the `Band` of each kind, by default those that are printed.
    """
    known = bands() if known is None else known
    found = [known[one] for one in broader(kind) if one in known]
    many = [band for band in found if band.is_known]
    of_several = [band for band in many if band.sources >= SOURCES]
    return next(iter([*of_several, *many, *reversed(found)]), None)


@lru_cache(maxsize=1)
def bands() -> dict:
    """Return the `Band` of each kind, on all levels, that rows were published of."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return {band.kind: band for band in map(_band, csv.DictReader(file))}


def _band(row):
    kind = Kind(*(row[name] for name in FEATURES))
    counts = (int(row[name]) for name in ("rows", "sources"))
    return Band(kind, *counts, *(float(row[name]) for name in ("low", "high", "median")))


def columns():
    """Return the columns of the file."""
    return (*FEATURES, "rows", "sources", "low", "high", "median")


def cells(band):
    """Return the cells of a band's line."""
    return (*astuple(band.kind), band.rows, band.sources, band.low, band.high, band.median)


def in_words(seconds, kind) -> str:
    """Return how long a step of some kind may really take that is predicted to take `seconds`."""
    band = find_band(kind)
    if band is None:
        return f"not known: no step of this kind was published ({kind})"
    here = " to ".join(quantity(seconds * bound, "s") for bound in (band.low, band.high))
    if not band.is_known:
        return f"not known: {few_in_words(band)}, here {here}"
    return (
        f"nine of ten such steps take {band.low:g} to {band.high:g} times as long, here {here}, by "
        f"{band.rows} published ones ({band.kind}; {_sources(band)})"
    )


def few_in_words(band) -> str:
    """Return what the steps of a kind took of which too few were published."""
    steps = f"{band.rows} published step{'s' * (band.rows > 1)}"
    return (
        f"only {steps} of this kind ({band.kind}; {_sources(band)}) took {band.low:g} to "
        f"{band.high:g} times what was predicted"
    )


def _sources(band):
    return "one source" if band.sources == 1 else f"{band.sources} sources"

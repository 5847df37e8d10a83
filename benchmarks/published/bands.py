"""The bands of `simgpu.bands`, which ``python -m benchmarks.published.page`` writes.

A row is a published step: of the record of tables, each with the kind and the time that `simgpu
plan` would give it with nothing fitted, and of the compiled pairs, as `simgpu run` does. A step
that both have counts once. A source is what a table or a pair cites. ``python -m
benchmarks.published.bands`` prints how many rows of each kind lie inside bands that the other
sources make.
"""

import csv
import io
import math
import re
import statistics
from dataclasses import dataclass

from benchmarks.compiled import record as pairs
from benchmarks.published import orders, record
from simgpu.bands.find import Band, cells, columns, find_band
from simgpu.bands.kinds import ENOUGH, Kind, broader

STEP = 0.05  # bands end at multiples of it
INSIDE = 0.9  # of the rows of sources that do not make a band


@dataclass(frozen=True)
class Row:
    """A published step.

    Attributes
    ----------
    kind : Kind
    source : str
    multiple : float
        Its time over the predicted one.
    """

    kind: Kind
    source: str
    multiple: float


@dataclass(frozen=True)
class Check:
    """How good a band is on rows that did not make it.

    Attributes
    ----------
    band : Band
    judged, inside : int
        Rows whose kind has a band without their own source, and those that lie inside.
    least, most : float
        Of all multiples.
    """

    band: Band
    judged: int
    inside: int
    least: float
    most: float


def rows(tables=None):
    """Return all rows of the records, or of other tables than the recorded ones."""
    tables = record.read()[0] if tables is None else tables
    steps = [
        (p, source_of(table, p))
        for table in tables for p in table.predictions if p.kind and p.measured
    ]  # fmt: skip
    known = {f"{p.measured:.3g}" for p, _ in steps}
    found = [Row(p.kind, source, p.measured / (p.unfitted or p.predicted)) for p, source in steps]
    for one in pairs.read():
        for kind, took, predicted in zip(one.kinds, one.pair.seconds, one.seconds, strict=True):
            if f"{took:.3g}" not in known:
                found.append(Row(kind, one.pair.key, took / predicted))
    return found


def source_of(table, prediction):
    """Return what a row of a table cites, or who published it."""
    cited = re.search(r"\{cite\}`([^`]+)`", table.title)
    return cited[1] if cited else prediction.system


def by_kind(found):
    """Return the rows of each kind, on all levels."""
    groups = {}
    for row in found:
        for kind in dict.fromkeys(broader(row.kind)):
            groups.setdefault(kind, []).append(row)
    return groups


def band_of(kind, group, wider=1.0) -> Band:
    """Return the band that some rows make, `wider` times, and outwards to multiples of `STEP`."""
    multiples = [row.multiple for row in group]
    ends = min(multiples), max(multiples)
    if len(group) >= ENOUGH:
        low, high = orders.nine_of_ten(multiples)
        ends = low / wider, high * wider
    low, high = (
        round(step(end / STEP) * STEP, 2)
        for step, end in zip((math.floor, math.ceil), ends, strict=True)
    )
    sources = len({row.source for row in group})
    return Band(kind, len(group), sources, low, high, round(statistics.median(multiples), 2))


def bands(found, wider=1.0) -> dict:
    """Return the `Band` of each kind that there are rows of."""
    return {kind: band_of(kind, group, wider) for kind, group in by_kind(found).items()}


def left_out(found, wider):
    """Return (row, whether it lies inside) of rows that other sources make a band for."""
    judged = []
    for source in dict.fromkeys(row.source for row in found):
        others = bands([row for row in found if row.source != source], wider)
        for row in found:
            if row.source == source:
                band = find_band(row.kind, others)
                if band and band.is_known:
                    judged.append((row, band.low <= row.multiple <= band.high))
    return judged


def widening(found) -> float:
    """Return how many times wider bands are than the rows that make them.

    It is the least with which nine of ten rows lie inside bands that the other sources make, each
    source counted alike: another program is less alike than rows of these.
    """
    wider = 1.0
    while _inside(left_out(found, wider)) < INSIDE:
        wider = round(wider + STEP, 2)
    return wider


def _inside(judged):
    """Return which share of rows lies inside, on average over the sources."""
    by_source = {}
    for row, inside in judged:
        by_source.setdefault(row.source, []).append(inside)
    return statistics.mean(map(statistics.mean, by_source.values())) if judged else 1.0


def checks(found) -> list[Check]:
    """Return how good each band is that a kind of the rows has.

    A row is judged by the band that its kind has without all rows of its source.
    """
    wider, all_ = widening(found), by_kind(found)
    known = bands(found, wider)
    judged = {find_band(row.kind, known): [] for row in found}
    for row, inside in left_out(found, wider):
        judged[find_band(row.kind, known)].append(inside)
    return [
        Check(band, len(kept), sum(kept), *_ends(all_[band.kind]))
        for band, kept in sorted(judged.items(), key=lambda pair: str(pair[0].kind))
    ]  # fmt: skip


def _ends(group):
    multiples = [row.multiple for row in group]
    return min(multiples), max(multiples)


def printed(tables=None) -> str:
    """Return the file of bands that the records give, or other tables than the recorded ones."""
    found = rows(tables)
    return text(bands(found, widening(found)))


def text(known) -> str:
    """Return the file of bands."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([columns(), *sorted(map(cells, known.values()))])
    return out.getvalue()


def main():
    """Print each band, and how good it is."""
    for one in checks(rows()):
        band = one.band
        print(
            f"{band.low:5.2f} to {band.high:.2f}, {one.inside} of {one.judged} of other sources "
            f"inside: {band.rows} rows, {band.sources} sources, {band.kind}"
        )


if __name__ == "__main__":
    main()

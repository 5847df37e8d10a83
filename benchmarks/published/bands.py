"""The bands of `simgpu.bands`, which ``python -m benchmarks.published.page`` writes.

A row is a published step: of the record of tables, each with the kind and the time that `simgpu
plan` would give it with nothing fitted, and of the compiled pairs, as `simgpu run` does. A step
that both have counts once. A source is what a table or a pair cites. Rows of one are
alike, so in a band each source weighs as much as another, however many rows it has; and since the
next program is of yet another source, bands are wider than their rows, those of one source most.
``python -m benchmarks.published.bands`` prints how many rows of each kind lie inside bands that the
other sources make.
"""

import csv
import io
import itertools
import math
import re
import statistics
from dataclasses import dataclass

from benchmarks.compiled import record as pairs
from benchmarks.published import record
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
class Widening:
    """How many times wider bands are than the rows that make them.

    Attributes
    ----------
    one, several : float
        Of one source, and of several.
    """

    one: float = 1.0
    several: float = 1.0

    def of(self, sources):
        """Return the factor of a band with rows of so many sources."""
        return self.one if sources == 1 else self.several


EXACT = Widening()


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


def band_of(kind, group, wider=EXACT) -> Band:
    """Return the band that some rows make, `wider` times, and outwards to multiples of `STEP`."""
    ends, sources = _ends(group), len(by_source(group))
    if len(group) >= ENOUGH:
        (low, high), factor = nine_of_ten(group), wider.of(sources)
        ends = low / factor, high * factor
    low, high = (
        round(step(end / STEP) * STEP, 2)
        for step, end in zip((math.floor, math.ceil), ends, strict=True)
    )
    median = round(statistics.median(row.multiple for row in group), 2)
    return Band(kind, len(group), sources, low, high, median)


def nine_of_ten(group):
    """Return between which multiples nine of ten rows lie if each source weighs as much.

    Examples
    --------
    >>> many, few = [Row(None, "a", 1.0)] * 98, [Row(None, "b", 0.5), Row(None, "b", 2.0)]
    >>> nine_of_ten(many + few)
    (0.5, 2.0)
    """
    weights = {source: 1 / len(own) for source, own in by_source(group).items()}
    rows = sorted(group, key=lambda row: row.multiple)
    tail = (1 - INSIDE) / 2 * len(weights)
    return tuple(_reach(order, weights, tail) for order in (rows, rows[::-1]))


def _reach(rows, weights, tail):
    """Return the multiple of the row with which rows weigh more than a `tail` of them may."""
    weight = itertools.accumulate(weights[row.source] for row in rows)
    return next(row.multiple for row, sum_ in zip(rows, weight, strict=True) if sum_ > tail)


def by_source(group):
    """Return the rows of each source."""
    groups = {}
    for row in group:
        groups.setdefault(row.source, []).append(row)
    return groups


def bands(found, wider=EXACT) -> dict:
    """Return the `Band` of each kind that there are rows of."""
    return {kind: band_of(kind, group, wider) for kind, group in by_kind(found).items()}


def left_out(found, wider=EXACT):
    """Return (row, whether it lies inside) of rows that other sources make a band for."""
    judged = []
    for source in dict.fromkeys(row.source for row in found):
        others = bands([row for row in found if row.source != source], wider)
        for row in found:
            if row.source == source:
                band = find_band(row.kind, others)
                if band and band.is_known:
                    judged.append((row, _holds(band, row)))
    return judged


def _holds(band, row):
    return band.low <= row.multiple <= band.high


def widening(found) -> Widening:
    """Return how many times wider bands must be than the rows that make them.

    Of one source: the least with which nine of ten rows of another source of its kind lie inside,
    on average over all pairs of sources. Of several: the least with which nine of ten rows of a
    source lie inside bands that the others make, on average over the sources.
    """
    one = _least(lambda wider: _one_by_another(found, Widening(wider)))
    return Widening(one, _least(lambda wider: _by_the_others(found, Widening(one, wider))))


def _least(share):
    """Return the least factor with which a share of rows lies inside."""
    wider = 1.0
    while share(wider) < INSIDE:
        wider = round(wider + STEP, 2)
    return wider


def _one_by_another(found, wider):
    """Return which share of a source's rows lies in the band of another one, over all pairs."""
    pairs = {}
    for kind, group in by_kind(found).items():
        parts = by_source(group)
        for source, own in parts.items():
            if len(own) >= ENOUGH:
                band = band_of(kind, own, wider)
                for other in parts.keys() - {source}:
                    inside = [_holds(band, row) for row in parts[other]]
                    pairs.setdefault((source, other), []).append(statistics.mean(inside))
    return _mean(pairs)


def _by_the_others(found, wider):
    """Return which share of a source's rows lies in the bands of the others, over all sources."""
    sources = {}
    for row, inside in left_out(found, wider):
        sources.setdefault(row.source, []).append(inside)
    return _mean(sources)


def _mean(groups):
    return statistics.mean(map(statistics.mean, groups.values())) if groups else 1.0


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

"""Measure: warm up, interleave, repeat; report the median and the range."""

import gc
from dataclasses import dataclass, replace
from statistics import median

from d2lmini import Timer

UNITS = ("s", "1/s", "images/s", "GB/s", "GFLOP/s", "B", "ratio", "count")


@dataclass(frozen=True)
class Settings:
    """How to measure.

    Parameters
    ----------
    repetitions : int, default 5
        Measurements of each variant.
    quick : bool, default False
        Small sizes and few repetitions: shows that everything runs, measures nothing.
    tests : bool, default False
        Measure ``make test``, too, which takes minutes.
    """

    repetitions: int = 5
    quick: bool = False
    tests: bool = False

    def pick(self, full, quick):
        """Return the size for a full or for a quick run."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Side:
    """One variant's measurements.

    Parameters
    ----------
    label : str
        What was measured: ``"d2l"``.
    samples : tuple of float
        One value per repetition, in the order in which they were measured.
    """

    label: str
    samples: tuple

    def __post_init__(self):
        object.__setattr__(self, "samples", tuple(map(float, self.samples)))
        if not self.samples:
            raise ValueError(f"{self.label} has no samples; measure at least once")

    @property
    def median(self):
        """The middle value."""
        return median(self.samples)

    @property
    def low(self):
        """The smallest value."""
        return min(self.samples)

    @property
    def high(self):
        """The largest value."""
        return max(self.samples)


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Parameters
    ----------
    benchmark : str
        Name of the benchmark: ``"lenet"``.
    case : str
        What of it: ``"one epoch, batch 256"``. Unique within the benchmark, and stable: rows of
        different runs are matched by it.
    unit : str
        One of `UNITS`.
    ours : Side
        What was measured.
    peer : Side, optional
        What it is compared with, measured in the same rounds.
    goal : float, optional
        The `ratio` to reach.
    higher_is_better : bool, default False
        Rates are better when higher, times when lower.
    exact : bool, default False
        A count, a size or a deterministic result: one sample is enough.
    note : str
        What a reader has to know to understand the numbers.
    plot : str
        Rows of a benchmark with an `x` are drawn as lines, those with the same `plot` together.
    x : float, optional
        Where: a size in bytes, a number of devices.
    """

    benchmark: str
    case: str
    unit: str
    ours: Side
    peer: Side | None = None
    goal: float | None = None
    higher_is_better: bool = False
    exact: bool = False
    note: str = ""
    plot: str = ""
    x: float | None = None

    def __post_init__(self):
        if self.unit not in UNITS:
            raise ValueError(f"unit {self.unit!r} is not known; use one of {', '.join(UNITS)}")
        if self.peer and len(self.peer.samples) != len(self.ours.samples):
            raise ValueError(
                f"{self.case}: {len(self.ours.samples)} samples against {len(self.peer.samples)}; "
                "measure both in the same rounds"
            )

    @property
    def ratio(self):
        """How many times better than the peer, as the median over the rounds; None without peer.

        Within a round both sides met the same state of the machine, so that ratios of rounds
        scatter less than the times themselves.
        """
        if self.peer is None:
            return None
        pairs = zip(self.ours.samples, self.peer.samples, strict=True)
        if self.higher_is_better:
            return median(ours / peer for ours, peer in pairs)
        return median(peer / ours for ours, peer in pairs)


def timed(function, *devices):
    """Return a function that calls `function` and returns how many seconds that took."""

    def seconds():
        timer = Timer(*devices)
        timer.start()
        function()
        return timer.stop()

    return seconds


def interleave(variants, settings, warm_up=1):
    """Measure variants in turns, so that a slow minute of the machine meets all of them.

    Parameters
    ----------
    variants : dict of str to callable
        Each returns its seconds when called; see `timed`.
    settings : Settings
        How often.
    warm_up : int, default 1
        Unmeasured rounds before.

    Returns
    -------
    dict of str to Side
        Seconds. The order of the variants is reversed in every other round.
    """
    samples = {label: [] for label in variants}
    gc.collect()
    gc.freeze()  # collections between measurements then look at new objects only
    try:
        for number in range(warm_up + settings.repetitions):
            labels = list(variants) if number % 2 == 0 else list(variants)[::-1]
            for label in labels:
                gc.collect()  # what others left behind is not to be cleared up in this one's time
                seconds = variants[label]()
                if number >= warm_up:
                    samples[label].append(seconds)
    finally:
        gc.unfreeze()
    return {label: Side(label, values) for label, values in samples.items()}


def as_rate(side, amount):
    """Turn seconds for `amount` of work into work per second."""
    return replace(side, samples=tuple(amount / seconds for seconds in side.samples))


def per_step(side, steps):
    """Turn seconds for several steps into seconds per step."""
    return replace(side, samples=tuple(seconds / steps for seconds in side.samples))

"""Measure: warm up, interleave, repeat. What follows from the samples is derived here alone."""

import gc
from dataclasses import asdict, dataclass
from statistics import median

from d2lmini import Timer

UNITS = ("s", "B", "B/s", "FLOP/s", "images/s")


@dataclass(frozen=True)
class Settings:
    """How to measure."""

    repetitions: int = 5  # of each variant
    quick: bool = False  # small sizes: shows that everything runs, measures nothing

    def pick(self, full, quick):
        """Return the size for a full or for a quick run."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Side:
    """One variant's measurements."""

    label: str  # what was measured: "d2l"
    samples: tuple  # of float, one per repetition, in the order in which they were measured

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

    def called(self, label):
        """Return the same samples under another name."""
        return Side(label, self.samples)

    def rate(self, amount):
        """Turn seconds for `amount` of work into work per second."""
        return Side(self.label, [amount / seconds for seconds in self.samples])

    def per_step(self, steps):
        """Turn seconds for several steps into seconds per step."""
        return Side(self.label, [seconds / steps for seconds in self.samples])


@dataclass(frozen=True)
class Row:
    """One line of a table: what was measured, and what it is to be seen against."""

    benchmark: str
    case: str  # unique within the benchmark
    unit: str  # of `UNITS`; rates are better when higher, all others when lower
    ours: Side
    peer: Side | None = None  # measured in the same rounds
    goal: float | None = None  # the `ratio` to reach
    limit: float | None = None  # a bound to keep, in `unit`: no measurement
    note: str = ""  # what a reader has to know to understand the numbers

    def __post_init__(self):
        if self.unit not in UNITS:
            raise ValueError(f"unit {self.unit!r} is not known; use one of {', '.join(UNITS)}")
        if self.peer and len(self.peer.samples) != len(self.ours.samples):
            raise ValueError(
                f"{self.case}: {len(self.ours.samples)} samples against {len(self.peer.samples)}; "
                "measure both in the same rounds"
            )
        if self.goal is not None and not self.peer:
            raise ValueError(f"{self.case}: a goal is a ratio, and needs a peer")

    @classmethod
    def from_dict(cls, data):
        """Make a row of what `to_dict` returned."""
        sides = {name: Side(**data[name]) for name in ("ours", "peer") if name in data}
        return cls(**data | sides)

    def to_dict(self):
        """Return what JSON can hold."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "")}

    @property
    def higher_is_better(self):
        """Whether the row is about a rate."""
        return self.unit.endswith("/s")

    @property
    def ratios(self):
        """How many times as fast as the peer ours was in each round; empty without peer.

        Within a round both sides met the same state of the machine, so that ratios of rounds
        scatter less than the times themselves.
        """
        pairs = zip(self.ours.samples, self.peer.samples, strict=True) if self.peer else ()
        return [ours / peer if self.higher_is_better else peer / ours for ours, peer in pairs]

    @property
    def ratio(self):
        """The median of `ratios`; None without peer."""
        return median(self.ratios) if self.peer else None

    @property
    def keeps_limit(self):
        """Whether the median is on the good side of the limit."""
        middle = self.ours.median
        return middle >= self.limit if self.higher_is_better else middle <= self.limit


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


def repeat(function, times):
    """Return a function that calls `function` so often."""

    def run():
        for _ in range(times):
            function()

    return run

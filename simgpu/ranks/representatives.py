"""Which ranks do the same: what the devices of two ranks did is compared, and ranges are halved."""

from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest

from simgpu import user_frame
from simgpu.clock.trace import COMM, Communication, Trace
from simgpu.hardware.default import MAX_DEVICES
from simgpu.ranks.process.scheduler import RanksError

TOLERANCE = 0.01  # of bytes and memory: rank 0 prints a loss, and the last rank does not
OF_TIME = 0.02  # a kernel beside a collective takes longer, and not on all ranks at the same time


class RanksDifferError(RanksError):
    """A rank that ran does something else than one in whose place it ran."""


class TraceWithLines(Trace):
    """A trace that also remembers the line of the program for each kernel.

    Parameters
    ----------
    trace : Trace
        To which the spans are added.
    """

    def __init__(self, trace):
        vars(self).update(vars(trace))
        self.work = {}  # row of a device -> what it did, in order

    def add(self, device, engine, stream, name, start, duration, flops=0, num_bytes=0):
        """Append one span."""
        super().add(device, engine, stream, name, start, duration, flops, num_bytes)
        if engine == COMM:
            self._record(device, name, duration, num_bytes, "")

    def add_kernel(self, host, device, stream, name, issued, overhead, start, duration, *amounts):
        """Append the spans of a launch and of its kernel."""
        super().add_kernel(host, device, stream, name, issued, overhead, start, duration, *amounts)
        self._record(device, name, duration, 0, user_frame.line())

    def _record(self, row, name, duration, num_bytes, line):
        self.work.setdefault(row, []).append((name, duration, num_bytes, line))


@dataclass(frozen=True)
class WorkOfRank:
    """What the device of a rank did.

    Attributes
    ----------
    number : int
        The rank.
    items : list of tuple
        Name, seconds, bytes and line of every kernel and collective; of collectives no line.
    peak_memory : int
        Bytes.
    """

    number: int
    items: list
    peak_memory: int

    def communication(self) -> list[tuple]:
        """Return collective, ranks and bytes of what it communicated, in order."""
        return [
            (name.name, name.ranks, num_bytes)
            for name, _, num_bytes, _ in self.items
            if isinstance(name, Communication)
        ]

    def seconds(self) -> Counter:
        """Return the time of its kernels by their names."""
        found = Counter()
        for name, seconds, *_ in self.items:
            if isinstance(name, str):
                found[name] += seconds
        return found


def work_of(device, number) -> WorkOfRank:
    """Return what a device did whose machine has a `TraceWithLines`."""
    return WorkOfRank(
        number, device.machine.trace.work.get(device.row, []), device.memory.highest[0]
    )


def difference(one, other) -> str | None:
    """Say where the devices of two ranks did different work; None if they did nearly the same."""
    communication = one.communication(), other.communication()
    same = len(communication[0]) == len(communication[1]) and all(
        a[:2] == b[:2] and _near(a[2], b[2]) for a, b in zip(*communication, strict=True)
    )
    memory = _near(one.peak_memory, other.peak_memory)
    mine, its = one.seconds(), other.seconds()
    apart = sum(abs(mine[name] - its[name]) for name in mine | its)
    if same and memory and apart <= OF_TIME * max(mine.total(), its.total()):
        return None
    return (
        f"rank {one.number} cannot stand for rank {other.number}: {_first_difference(one, other)}"
    )


def _near(a, b):
    return abs(a - b) <= TOLERANCE * max(a, b)


def _first_difference(one, other):
    lines = "", ""
    for mine, its in zip_longest(one.items, other.items):
        lines = _line(mine, lines[0]), _line(its, lines[1])
        if mine is None or its is None or not _near(mine[2], its[2]):
            break
        if mine[0] != its[0] or mine[3] != its[3]:  # the same kernel, perhaps of another line
            break
        if not _near(mine[1], its[1]) and isinstance(mine[0], str):
            break
    else:
        return (
            f"its device holds {one.peak_memory:,} bytes at most, the other {other.peak_memory:,}"
        )
    return f"it {_describe(mine, lines[0])}, where rank {other.number} {_describe(its, lines[1])}"


def _line(item, previous):
    return previous if item is None or not item[3] else item[3]


def _describe(item, line):
    if item is None:
        return "has ended"
    name, seconds, num_bytes, _ = item
    if isinstance(name, Communication):
        return f"communicates {num_bytes:,} bytes by {name.name} after {line or 'its start'}"
    return f"runs {name} for {1e6 * seconds:.3g} us ({line})"


def search(run, nprocs) -> tuple:
    """Find ranks that can stand for all: halve every range whose first and last rank differ.

    A rank that differs from both ends of its range, and is not one of the ends of a smaller range,
    is not found.

    Parameters
    ----------
    run : callable
        Runs some ranks, given with the first rank that each represents, and returns the
        `WorkOfRank` of each; raises `RanksError` if they cannot run without others.
    nprocs : int
        All ranks.

    Returns
    -------
    list of int, str or None
        The ranks, and where one still differs from the last rank of its range, which happens if
        more than 128 ranks were needed.
    """
    firsts = [0]
    while True:
        lasts = [following - 1 for following in (*firsts[1:], nprocs)]
        if firsts == lasts:  # each rank stands for itself
            return firsts, None
        try:
            pairs = zip(run(firsts, firsts), run(lasts, firsts), strict=True)
            found = [difference(one, other) for one, other in pairs]
        except RanksError as error:
            found, failure = [str(error)] * len(firsts), error
        else:
            failure = None
        middles = [
            (first + last + 1) // 2
            for first, last, differs in zip(firsts, lasts, found, strict=True)
            if differs and first < last
        ]
        if not middles or len(firsts) + len(middles) > MAX_DEVICES:
            if failure is not None:
                raise failure
            return firsts, next(filter(None, found), None)
        firsts = sorted([*firsts, *middles])

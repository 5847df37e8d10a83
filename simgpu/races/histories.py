"""The accesses to a piece of memory, which of them race, and the error message for a race."""

from typing import NamedTuple

from simgpu.races.clocks import merge
from simgpu.races.regions import contains, overlap


class Access(NamedTuple):
    """One access to a piece of memory by one operation."""

    stream: object  # None: the host
    tick: int  # number of the operation in its stream
    writes: bool
    name: str
    line: str
    tensor: str
    region: tuple | None  # None: all of it
    is_past: bool = False  # the tensor has been freed since


class History:
    """The accesses to a piece of memory that still matter, and the stream that allocated it."""

    __slots__ = ("accesses", "detector", "is_small", "recorded", "stream")

    def __init__(self, detector, stream=None, is_small=True):
        self.detector, self.stream, self.is_small = detector, stream, is_small
        self.recorded = set()  # streams passed to record_stream
        self.accesses = {}

    def add(self, new):
        """Add an access; a write drops the accesses to the bytes that it overwrites.

        Whatever is ordered after the write is ordered after them, too.
        """
        if new.writes:
            self.accesses = {
                key: old
                for key, old in self.accesses.items()
                if old.is_past or not contains(new.region, old.region)
            }
        self.accesses[new.stream, new.region, new.writes] = new

    def find_race(self, new, clock):
        """Return an earlier access that races with `new`; `clock` is that of the operation."""
        races = [
            old
            for old in list(self.accesses.values())
            if (new.writes or old.writes)
            and old.tick > clock.get(old.stream, 0)
            and (old.is_past or overlap(old.region, new.region))
        ]
        return min(races, key=lambda old: old.is_past, default=None)

    def mark_freed(self):
        """Hand the history of freed memory to the detector; runs within ``__del__``.

        The memory is not reused before the work now in the streams of record_stream is done.
        """
        done = {}
        for stream in self.recorded:
            merge(done, self.detector.clocks.get(stream, {}))
        self.accesses = {
            key: access
            for key, access in self.accesses.items()
            if access.tick > done.get(access.stream, 0)
        }
        self.detector.freed.append(self)

    def explain(self, old, new):
        """Return an error message: the two accesses of a race, and how to order them."""
        second = f"race: {_operation(new)} {_verb(new)} a {new.tensor}"
        first = _operation(old)
        if new.stream is None:
            return (
                f"{second} in pinned memory that {first} may still use. Make the host wait first: "
                "event.synchronize(), stream.synchronize() or synchronize()"
            )
        wait = f"{self.who_waits(new.stream)} should wait for {self.what_for(old)}"
        if not old.is_past:
            return f"{second} that {first} {_verb(old)}, and nothing orders the two: {wait}"
        memory = f"memory may be that of a freed {old.tensor}, which {first} may still use"
        if old.stream is self.stream:
            return f"{second} that was allocated in {_name(self.stream)}. Its {memory}: {wait}"
        return (
            f"{second}. Its {memory}: either {wait}; or, before a tensor is freed that "
            f"{_name(old.stream)} uses, call tensor.record_stream(stream) or make the host wait "
            "for that stream"
        )

    def who_waits(self, stream):
        """Return the stream that should have waited, in words."""
        if stream in self.detector.of_groups:
            return "the stream in which it is called"
        return _name(stream)

    def what_for(self, old):
        """Return what a stream should have waited for, and how, in words."""
        if old.stream in self.detector.of_groups:
            return (
                f"{old.name!r} first: call wait() on its work in that stream, or let the stream "
                "wait for one that did, by stream.wait_stream(other)"
            )
        return (
            f"{_name(old.stream)} first, by stream.wait_event(event) or stream.wait_stream(other)"
        )


def _verb(access):
    return "writes" if access.writes else "reads"


def _operation(access):
    place = "on the host" if access.stream is None else f"in {_name(access.stream)}"
    return f"{access.name!r} {place} ({access.line})"


def _name(stream):
    return f"stream {stream.number} of {stream._device.name}"

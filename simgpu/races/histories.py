"""Who used a piece of memory, what races with whom, and how that is said."""

from typing import NamedTuple

from simgpu.races.clocks import merge
from simgpu.races.regions import contains, overlap


class Access(NamedTuple):
    """One use of a piece of memory by one operation."""

    stream: object  # None: the host
    tick: int  # the stream's own count of operations
    writes: bool
    name: str
    line: str
    tensor: str
    region: tuple | None  # None: all of it
    is_past: bool = False  # the use of a tensor that was dropped since


class History:
    """The uses of one piece of memory that still matter, and the stream in which it was made."""

    __slots__ = ("detector", "is_small", "recorded", "stream", "uses")

    def __init__(self, detector, stream=None, is_small=True):
        self.detector, self.stream, self.is_small = detector, stream, is_small
        self.recorded = set()  # the streams that record_stream has named
        self.uses = {}

    def add(self, use):
        """Remember a use, and forget those that a write makes unimportant.

        What comes after the write comes after all that the write came after.
        """
        if use.writes:
            self.uses = {
                key: old
                for key, old in self.uses.items()
                if old.is_past or not contains(use.region, old.region)
            }
        self.uses[use.stream, use.region, use.writes] = use

    def find_race(self, use, clock):
        """Return an earlier access with which `use` races; `clock` says what comes before it."""
        races = [
            old
            for old in list(self.uses.values())
            if (use.writes or old.writes)
            and old.tick > clock.get(old.stream, 0)
            and (old.is_past or overlap(old.region, use.region))
        ]
        return min(races, key=lambda old: old.is_past, default=None)

    def drop(self):
        """Take note that no tensor has this memory any more; runs within ``__del__``.

        It stays unused until the streams named by record_stream have done what is in them now.
        """
        over = {}
        for stream in self.recorded:
            merge(over, self.detector.clocks.get(stream, {}))
        self.uses = {
            key: use for key, use in self.uses.items() if use.tick > over.get(use.stream, 0)
        }
        self.detector.dropped.append(self)

    def explain(self, old, new):
        """Say what the two accesses of a race are, and what helps."""
        second = f"race: {_operation(new)} {_verb(new)} a {new.tensor}"
        first = _operation(old)
        if new.stream is None:
            return (
                f"{second} in pinned memory, with which {first} may not be done yet. Let the host "
                "wait first: event.synchronize(), stream.synchronize() or synchronize()"
            )
        wait = (
            f"{_name(new.stream)} should wait for {_name(old.stream)} first, by "
            "stream.wait_event(event) or stream.wait_stream(other)"
        )
        if not old.is_past:
            return f"{second} that {first} {_verb(old)}, and nothing orders the two: {wait}"
        memory = (
            f"memory may be that of a dropped {old.tensor}, with which {first} may not be done yet"
        )
        if old.stream is self.stream:
            return f"{second} that was made in {_name(self.stream)}. There its {memory}: {wait}"
        return (
            f"{second}. Its {memory}: either {wait}; or, before a tensor is dropped that "
            f"{_name(old.stream)} uses, call tensor.record_stream(stream), or let the host wait "
            "for that stream"
        )


def _verb(use):
    return "writes" if use.writes else "reads"


def _operation(use):
    place = "on the host" if use.stream is None else f"in {_name(use.stream)}"
    return f"{use.name!r} {place} ({use.line})"


def _name(stream):
    return f"stream {stream.number} of {stream._device.name}"

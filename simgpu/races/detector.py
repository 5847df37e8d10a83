"""The race detector: finds accesses to the same memory whose order nothing guarantees.

Values are computed in program order, so they never show a missing ``wait_event``. The detector
checks for every access to a tensor whether it *must* come after earlier accesses to its memory.
"""

import os
import sys
import warnings
from collections import deque
from pathlib import Path
from weakref import WeakSet

import torch

from simgpu.races.clocks import Clocks
from simgpu.races.histories import Access, History
from simgpu.races.regions import region

active = None  # the `Detector` while a `check_races` block is open
SMALL = 2**20  # bytes; CUDA's caching allocator has separate pools for small and large blocks
_OURS = tuple(
    str(path) + os.sep for path in (Path(__file__).parents[1], Path(torch.__file__).parent)
)


class RaceError(RuntimeError):
    """Two unordered operations use the same memory, and at least one of them writes."""


class Detector(Clocks):
    """Finds races from the accesses to each piece of memory, including reused memory."""

    def __init__(self, action):
        super().__init__()
        self.action = action
        self.saw_work = False
        self.freed = deque()  # histories of freed memory
        self.reusable = {}  # (stream, is small): the last access by each stream to freed memory
        self.of_groups = WeakSet()  # streams in which only collectives and messages run

    def touch(self, device, name, reads=(), writes=(), peer=None):
        """Check one operation issued now for `device`, or a copy from it to `peer`."""
        with device.machine.lock:
            self.saw_work = True
            self.check(*self.advance(device, peer), name, reads, writes)

    def communicate(self, work, device, stream, reads, writes):
        """Check a collective or message, issued now to a stream of its group or to the current one.

        Afterwards `work` is a mark of its end, for which streams and the host can wait.
        """
        with device.machine.lock:
            self.saw_work = True
            name = work.name.split(" ")[0]
            if stream is device.stream:
                self.check(*self.advance(device), name, reads, writes)
            else:
                self.of_groups.add(stream)
                clock = self.advance_communication(device, stream)
                self.check(stream, clock, name, reads, writes)
            self.record(work, stream)

    def wait_for_work(self, work, device):
        """Order later work in the current stream of `device` after a collective or message."""
        with device.machine.lock:
            self.wait(self.stream_for(device), work)

    def check(self, stream, clock, name, reads, writes):
        """Compare an operation's accesses with earlier ones; `stream` is None for the host."""
        frame, race = _caller(), None
        line = _line(frame)
        for tensor, is_write in [(t, False) for t in reads] + [(t, True) for t in writes]:
            history = self.history(tensor)
            if history is None:
                continue
            access = Access(
                stream, clock.get(stream, 0), is_write, name, line, _describe(tensor),
                region(tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.itemsize),
            )  # fmt: skip
            old = history.find_race(access, clock)
            if race is None and old is not None:
                race = history.explain(old, access)
            if stream is not None:
                history.add(access)
        if race is not None and self.action == "raise":
            raise RaceError(race)
        if race is not None:
            warnings.warn_explicit(race, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno)

    def history(self, tensor):
        """Return the history of a tensor's memory; None if no race for it is possible."""
        if tensor.numel() == 0:
            return None
        memory = getattr(tensor, "_block", None)
        if memory is None:  # a host tensor
            memory = tensor.untyped_storage()
            if memory.nbytes() < tensor.nbytes or not getattr(memory, "_sim_pinned", False):
                return None  # without values, or not pinned: the host waits for every copy
        history = getattr(memory, "_sim_history", None)
        if history is None or history.detector is not self:
            history = memory._sim_history = History(self)
        return history

    def keep_for(self, tensor, stream):
        """Keep a freed tensor's memory from reuse until `stream` is done (``record_stream``)."""
        history = self.history(tensor)
        if history is not None and stream is not history.stream:
            history.recorded.add(stream)

    def allocate(self, block, device):
        """Start a block's history with past accesses to the freed memory that it may reuse."""
        with device.machine.lock:
            stream, is_small = self.stream_for(device), block.num_bytes <= SMALL
            history = block._sim_history = History(self, stream, is_small)
            self.collect()
            for access in self.reusable.get((stream, is_small), {}).values():
                if access.tick > self.host.get(access.stream, 0):
                    history.accesses[access.stream, None, True] = access

    def collect(self):
        """Keep the last accesses to freed memory, by the stream that may allocate it again."""
        while self.freed:
            history = self.freed.popleft()
            if history.stream is None:
                continue  # allocated before the `check_races` block, in an unknown stream
            reusable = self.reusable.setdefault((history.stream, history.is_small), {})
            for access in history.accesses.values():
                last = reusable.get(access.stream)
                if last is None or last.tick < access.tick:
                    past = access._replace(region=None, writes=True, is_past=True)
                    reusable[access.stream] = past


def _describe(tensor):
    return f"{str(tensor.dtype).removeprefix('torch.')} tensor of shape {tuple(tensor.shape)}"


def _caller():
    """Return the innermost frame of the user's program."""
    frame = sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _is_ours(filename):
    return filename.startswith(_OURS) or filename.endswith("typing_extensions.py")  # decorators


def _line(frame):
    name = frame.f_code.co_name
    return f"line {frame.f_lineno}" + ("" if name.startswith("<") else f" of {name}")

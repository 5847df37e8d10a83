"""Finding races: work on the same memory in two streams, of which nothing says which goes first.

Values are computed in the order of the program, so a missing ``wait_event`` never shows in them.
This asks, for every access to a tensor, whether it *must* come after what was done there before.
"""

import os
import sys
import warnings
from collections import deque
from pathlib import Path

import torch

from simgpu.races.clocks import Clocks
from simgpu.races.histories import Access, History
from simgpu.races.regions import region

active = None  # the `Detector` while a `check_races` block is open
SMALL = 2**20  # bytes; CUDA's caching allocator keeps smaller and larger blocks apart
_OURS = tuple(
    str(path) + os.sep for path in (Path(__file__).parents[1], Path(torch.__file__).parent)
)


class RaceError(RuntimeError):
    """Two operations use the same memory, one of them writes, and nothing orders them."""


class Detector(Clocks):
    """Who used which memory when, and what may get that memory next."""

    def __init__(self, action):
        super().__init__()
        self.action = action
        self.saw_work = False
        self.dropped = deque()  # histories of memory that nobody has any more
        self.reusable = {}  # (stream, is small): the last past use by each stream

    def touch(self, device, name, reads=(), writes=(), peer=None):
        """Check one operation that is now issued for `device`, or copies from it to `peer`."""
        with device.machine.lock:
            self.saw_work = True
            self.check(*self.advance(device, peer), name, reads, writes)

    def check(self, stream, clock, name, reads, writes):
        """Compare an operation's accesses with those before; `stream` is None for the host."""
        frame, race = _caller(), None
        line = _line(frame)
        for tensor, is_write in [(t, False) for t in reads] + [(t, True) for t in writes]:
            history = self.history(tensor)
            if history is None:
                continue
            use = Access(
                stream, clock.get(stream, 0), is_write, name, line, _describe(tensor),
                region(tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.itemsize),
            )  # fmt: skip
            old = history.find_race(use, clock)
            if race is None and old is not None:
                race = history.explain(old, use)
            if stream is not None:
                history.add(use)
        if race is not None and self.action == "raise":
            raise RaceError(race)
        if race is not None:
            warnings.warn_explicit(race, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno)

    def history(self, tensor):
        """Return the history of a tensor's memory; None if nobody can race for it."""
        if tensor.numel() == 0:
            return None
        memory = getattr(tensor, "_block", None)
        if memory is None:  # a host tensor
            memory = tensor.untyped_storage()
            if memory.nbytes() < tensor.nbytes or not getattr(memory, "_sim_pinned", False):
                return None  # without values, or in memory for which the host always waits
        history = getattr(memory, "_sim_history", None)
        if history is None or history.detector is not self:
            history = memory._sim_history = History(self)
        return history

    def keep_for(self, tensor, stream):
        """Let a tensor's memory, when it is dropped, not be reused before `stream` is done."""
        history = self.history(tensor)
        if history is not None and stream is not history.stream:
            history.recorded.add(stream)

    def allocate(self, block, device):
        """Begin a block's history: its memory may be what tensors of its stream have dropped."""
        with device.machine.lock:
            stream, is_small = self.stream_for(device), block.num_bytes <= SMALL
            history = block._sim_history = History(self, stream, is_small)
            self.collect()
            for use in self.reusable.get((stream, is_small), {}).values():
                if use.tick > self.host.get(use.stream, 0):
                    history.uses[use.stream, None, True] = use

    def collect(self):
        """Keep the last uses of dropped memory, for the stream whose tensors may get it next."""
        while self.dropped:
            history = self.dropped.popleft()
            if history.stream is None:
                continue  # made before the `check_races` block: nobody knows in which stream
            reusable = self.reusable.setdefault((history.stream, history.is_small), {})
            for use in history.uses.values():
                last = reusable.get(use.stream)
                if last is None or last.tick < use.tick:
                    reusable[use.stream] = use._replace(region=None, writes=True, is_past=True)


def _describe(tensor):
    return f"{str(tensor.dtype).removeprefix('torch.')} tensor of shape {tuple(tensor.shape)}"


def _caller():
    """Return the frame of the program that is checked."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame


def _line(frame):
    name = frame.f_code.co_name
    return f"line {frame.f_lineno}" + ("" if name.startswith("<") else f" of {name}")

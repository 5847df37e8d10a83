"""Snapshots of memory in PyTorch's format, which ``torch.cuda._memory_viz`` and its viewer read.

They show the segments that PyTorch's caching allocator would have, with the blocks in them, and
what was allocated and freed since `record_memory_history`, in simulated time.
"""

import sys
import weakref
from collections import deque

from simgpu.clock import current
from simgpu.user_frame import stack

_POOL = (0, 0)
_histories = weakref.WeakKeyDictionary()  # device -> its history, while one is recorded


class History:
    """What a device has allocated and freed, with the lines of the program that did.

    Parameters
    ----------
    device : Device
    keeps : bool
        Whether there are entries; else only the stacks of blocks that are in use.
    stacks : bool
        Whether Python's stacks are recorded.
    max_entries : int
        The most entries: later ones replace earlier ones.
    """

    def __init__(self, device, keeps, stacks, max_entries):
        self._machine, self._memory, self._stacks = device.machine, device.memory, stacks
        self._segments = self._memory.segments.sizes()
        self._version = self._memory.segments.version
        self.entries = deque(maxlen=max(0, min(max_entries, sys.maxsize)) if keeps else 0)
        self.frames = {}  # address of a block in use -> where it was allocated

    def change(self, address, num_bytes) -> None:
        """Note that a block was allocated, or freed if `num_bytes` is negative."""
        frames = stack() if self._stacks else []
        self.note_segments(frames)
        if num_bytes > 0:
            self.frames[address] = frames
            self._add("alloc", address, num_bytes, frames)
            return
        self.frames.pop(address, None)
        for action in ("free_requested", "free_completed"):
            self._add(action, address, -num_bytes, frames)

    def note_segments(self, frames=()) -> None:
        """Note which segments have come and gone since the last time."""
        segments = self._memory.segments
        if segments.version == self._version:
            return
        before, now = self._segments, segments.sizes()
        self._segments, self._version = now, segments.version
        for action, some, others in (
            ("segment_free", before, now), ("segment_alloc", now, before),
        ):  # fmt: skip
            for address in some.keys() - others.keys():
                self._add(action, self._memory.base + address, some[address], list(frames))

    def _add(self, action, address, num_bytes, frames):
        self.entries.append(
            {
                "action": action,
                "addr": address,
                "size": num_bytes,
                "stream": 0,
                "time_us": round(self._machine.host * 1e6),
                "pool_id": _POOL,
                "frames": frames,
                "compile_context": "N/A",
                "user_metadata": "",
            }
        )


def record_memory_history(
    enabled="all", context="all", stacks="all", max_entries=sys.maxsize, device=None, **_
) -> None:
    """Begin a new history of the device, or with ``enabled=None`` record none.

    Parameters
    ----------
    enabled : {"all", "state"} or None, default "all"
        ``"state"`` records no entries, only where blocks in use were allocated. True and False, as
        in early versions of PyTorch, are ``"all"`` and None.
    context : str or None, default "all"
        None records no stacks.
    stacks : str, default "all"
        Accepted; stacks are those of Python.
    max_entries : int, optional
        The most entries: later ones replace earlier ones.
    device : torch.device, str or int, optional
        Default: the current device.

    Raises
    ------
    ValueError
        If `enabled` is anything else.
    """
    if enabled not in ("all", "state", None, True, False):
        raise ValueError(f"expected state to be 'state', 'all' or None, got {enabled!r}")
    found = current.find_device(device)
    if (last := _histories.pop(found, None)) is not None:
        found.memory.watchers = tuple(w for w in found.memory.watchers if w != last.change)
    if enabled:
        history = History(found, enabled != "state", context is not None, max_entries)
        _histories[found] = history
        found.memory.watchers += (history.change,)


def snapshot(device=None, **_) -> dict:
    """Return the segments and blocks of the device, and its history, as PyTorch does."""
    found = current.find_device(device)
    found.sink.settle()
    found.memory.allocated  # noqa: B018 (notices what was freed)
    history = _histories.get(found)
    if history is not None:
        history.note_segments()
    return {
        "segments": _segments(found, history.frames if history else {}),
        "device_traces": [*([] for _ in range(found.number)), _entries(history)],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1,
            "garbage_collection_threshold": 0.0, "expandable_segments": False,
        },
        "external_annotations": [],
    }  # fmt: skip


def memory_snapshot(mempool_id=None, include_traces=True) -> list:
    """Return the segments and blocks of the current device."""
    return snapshot()["segments"]


def _entries(history):
    return list(history.entries) if history else []


def _segments(device, frames):
    memory = device.memory
    return [
        _segment(device.number, memory.base, num_bytes, pieces, frames)
        for num_bytes, pieces in memory.segments.layout()
    ]


def _segment(number, base, num_bytes, pieces, frames):
    used = [piece for piece in pieces if not piece.free]
    allocated = sum(piece.size for piece in used)
    return {
        "device": number, "address": base + pieces[0].address, "total_size": num_bytes,
        "allocated_size": allocated, "active_size": allocated,
        "requested_size": sum(piece.request for piece in used), "stream": 0,
        "segment_type": "small" if pieces[0].small else "large", "segment_pool_id": _POOL,
        "is_expandable": False, "frames": [],
        "blocks": [_block(base + piece.address, piece, frames) for piece in pieces],
    }  # fmt: skip


def _block(address, piece, frames):
    return {
        "address": address, "size": piece.size,
        "requested_size": 0 if piece.free else piece.request,
        "state": "inactive" if piece.free else "active_allocated",
        "frames": [] if piece.free else frames.get(address, []),
    }  # fmt: skip

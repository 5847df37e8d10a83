"""Ranges that a program names, by ``record_function`` or NVTX: they go to the rank's recording."""

import functools
import weakref

from simgpu.backend.pytorch.replacements import find
from simgpu.clock import current

_ENTER, _EXIT = (f"torch.autograd.profiler:record_function.__{n}__" for n in ("enter", "exit"))
_recordings = weakref.WeakKeyDictionary()  # rank -> its recording, while it profiles


def recording_of_rank():
    """Return the recording of the rank that runs, or None."""
    return _recordings.get(current.ranks.rank) if current.ranks is not None else None


def begin(recording) -> None:
    """Make it the recording of its rank.

    Raises
    ------
    RuntimeError
        If the rank has one.
    """
    if recording_of_rank() is not None:
        raise RuntimeError("Profiler is already enabled on this thread")  # as PyTorch says it
    _recordings[recording.rank] = recording


def end():
    """Return the recording of the rank that runs, which has none from now on."""
    return _recordings.pop(current.ranks.rank, None)


def open_range(name, pushed=False) -> None:
    """Begin a range, if the rank records."""
    if (recording := recording_of_rank()) is not None:
        recording.open(name, pushed)


def close_range(name=None) -> None:
    """End the range of a name, or the innermost pushed one, if the rank records."""
    if (recording := recording_of_rank()) is not None:
        recording.close(name)


def replacements() -> dict:
    """Return the replacements of ``record_function`` while ranks run."""
    real_enter, real_exit = find(_ENTER), find(_EXIT)

    @functools.wraps(real_enter)
    def enter(self):
        open_range(self.name)
        return real_enter(self)

    @functools.wraps(real_exit)
    def exit(self, *error):
        close_range(self.name)
        return real_exit(self, *error)

    return {_ENTER: enter, _EXIT: exit}

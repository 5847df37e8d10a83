"""The flight recorder of a rank, by the names by which programs ask PyTorch for it."""

import json
import pickle

from simgpu.clock import current

_C10D = "torch._C._distributed_c10d"


def replacements() -> dict:
    """Return the replacements while ranks run; a PyTorch without NCCL lacks some of the names."""
    return {
        **dict.fromkeys((f"{_C10D}:_dump_nccl_trace", f"{_C10D}:_dump_fr_trace"), dump),
        **dict.fromkeys(
            (f"{_C10D}:_dump_nccl_trace_json", f"{_C10D}:_dump_fr_trace_json"), dump_json
        ),
    }


def dump(includeCollectives=True, includeStackTraces=True, onlyActive=False) -> bytes:
    """Return the last calls of the rank that runs, pickled.

    Parameters
    ----------
    includeCollectives, includeStackTraces, onlyActive : bool
        Whether there are calls, whether they have stacks, and whether those that have ended are
        left out.
    """
    found = _find(includeCollectives, includeStackTraces, onlyActive)
    return pickle.dumps(found, protocol=2)


def dump_json(includeCollectives=True, onlyActive=False) -> bytes:
    """Return the last calls of the rank that runs as JSON, without stacks.

    Parameters
    ----------
    includeCollectives, onlyActive : bool
        As for `dump`.
    """
    return json.dumps(_find(includeCollectives, False, onlyActive)).encode()


def _find(*which):
    world = current.ranks
    return world.recorders.of_rank().dump(world.communication.queues, *which)

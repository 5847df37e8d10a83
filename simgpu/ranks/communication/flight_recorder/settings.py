"""What the environment asks of the flight recorder, by the names that PyTorch has for NCCL."""

import os
from dataclasses import dataclass

_SIZE = "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"  # the new name, and the old one
_PREFIX = "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
_WRITES, _STACKS = ("TORCH_NCCL_DUMP_ON_TIMEOUT",), ("TORCH_INCLUDE_STACK_TRACE",)
_SWITCH = dict.fromkeys(("y", "yes", "1", "t", "true"), True)
_SWITCH |= dict.fromkeys(("n", "no", "0", "f", "false"), False)


@dataclass(frozen=True)
class Settings:
    """How a rank records its calls.

    Attributes
    ----------
    size : int
        How many of its last calls it keeps. Newer versions of PyTorch keep 2000 if nothing is
        asked for; here none, so that no file is written that nobody has asked for.
    writes : bool
        Whether it writes them after a hang.
    stacks : bool
        Whether the file has the stack of each call.
    prefix : str
        The path of its file, without the number of the rank at the end.
    """

    size: int
    writes: bool
    stacks: bool
    prefix: str


def read() -> Settings:
    """Return what the environment of the rank that runs asks for.

    Raises
    ------
    ValueError
        Names a variable whose value cannot be read.
    """
    size, writes = _number(_SIZE), _switch(_WRITES)
    return Settings(size, size > 0 and writes, _switch(_STACKS), _find(_PREFIX)[1] or _in_cache())


def _find(names):
    """Return the name that is set, and its value; the first of them counts most."""
    return next(((name, os.environ[name]) for name in names if os.environ.get(name)), (None, ""))


def _number(names):
    name, text = _find(names)
    try:
        return max(0, int(text or 0))
    except ValueError:
        raise ValueError(f"{name}={text}: give a number of calls to keep, such as 2000") from None


def _switch(names):
    name, text = _find(names)
    if text and text.lower() not in _SWITCH:
        raise ValueError(f"{name}={text}: give 1 or 0")
    return _SWITCH.get(text.lower(), True)


def _in_cache():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "torch", "comm_lib_trace_rank_")

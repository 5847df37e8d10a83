"""The names of `torch.cuda` while a script runs: those of the table, and those that CUDA alone has.

`torch.cuda` takes many of its names from its modules; these get the same values.
"""

import contextlib
import importlib
import types

import torch

from simgpu.device_api import memory, memory_snapshot
from simgpu.device_api.table import FUNCTIONS, MEMORY, RANDOM
from simgpu.ranks.pytorch.profiler import ranges
from simgpu.run.cuda import refused, tensors

CUDA_VERSION = "13.0"  # if this PyTorch has none of its own
# cuDNN 9.15.1, as PyTorch 2.10 brings with CUDA 13; assumed: that of later versions may be newer.
CUDNN_VERSION = 91501
MODULES = (
    "amp", "graphs", "jiterator", "memory", "nccl", "nvtx", "profiler", "random", "streams",
)  # fmt: skip


class _Cudart:
    """``torch.cuda.cudart()``: functions of CUDA's runtime that programs call for profilers."""

    cudaProfilerStart = cudaProfilerStop = staticmethod(lambda *_: 0)  # noqa: N815
    cudaHostRegister = cudaHostUnregister = staticmethod(lambda *_: 0)  # noqa: N815
    cudaMemGetInfo = staticmethod(memory.mem_get_info)  # noqa: N815

    class cudaError:  # noqa: N801
        """Codes of errors."""

        success = 0


def _push(msg, *_, **__):
    """Begin a range of NVTX for the profiler; return its depth, which is not counted."""
    ranges.open_range(msg, pushed=True)
    return 0


def _pop(*_, **__):
    ranges.close_range()
    return 0


def _start(msg, *_, **__):
    """Begin a range that may end in any order; its name is its handle."""
    ranges.open_range(msg)
    return msg


@contextlib.contextmanager
def _range(msg, *args, **kwargs):
    ranges.open_range(msg.format(*args, **kwargs), pushed=True)
    try:
        yield
    finally:
        ranges.close_range()


_NVTX = {
    "range_push": _push,
    "range_pop": _pop,
    "range_start": _start,
    "range_end": ranges.close_range,
    "mark": lambda *_, **__: None,
    "range": _range,
}
_OWN = {  # names that torch.sim does not need
    "cudart": lambda: _Cudart,
    "check_error": memory.nothing,
    "memory_snapshot": memory_snapshot.memory_snapshot,
    "has_half": True,
    "has_magma": True,
    **tensors.TYPES,
}
_MEMORY = {  # names of torch.cuda.memory that torch.cuda lacks
    "_record_memory_history": memory_snapshot.record_memory_history,
    "_set_allocator_settings": memory.nothing,
    "_snapshot": memory_snapshot.snapshot,  # which PyTorch's `_dump_snapshot` writes
}


def replacements() -> dict:
    """Return the replacements."""
    for name in MODULES:
        importlib.import_module(f"torch.cuda.{name}")
    found = {f"torch.cuda:{name}": value for name, value in {**FUNCTIONS, **_OWN}.items()}
    found |= refused.replacements()
    for module in MODULES:
        here = vars(importlib.import_module(f"torch.cuda.{module}"))
        for name, value in list(found.items()):
            owner, _, attribute = name.partition(":")
            if owner == "torch.cuda" and attribute in here and not _is_module(here[attribute]):
                found[f"torch.cuda.{module}:{attribute}"] = value
    found |= {f"torch.cuda.memory:{name}": value for name, value in {**MEMORY, **_MEMORY}.items()}
    found |= {f"torch.cuda.random:{name}": value for name, value in RANDOM.items()}
    found |= {f"torch.cuda.nvtx:{name}": value for name, value in _NVTX.items()}
    found["torch.version:cuda"] = torch.version.cuda or CUDA_VERSION
    found["torch.backends.cudnn:version"] = lambda: CUDNN_VERSION
    found["torch.backends.cudnn:is_available"] = lambda: True
    # RNNs ask it whether to call cuDNN; simulated ones run PyTorch's own operations.
    found["torch.backends.cudnn:is_acceptable"] = lambda tensor: False
    return found


def _is_module(value):
    return isinstance(value, types.ModuleType)

"""Refuse CUDA: one sentence that names the script's line and what to write there instead.

The launcher hides real GPUs and never initialises CUDA.
"""

import functools
import os
import re
import tokenize
from contextlib import contextmanager
from pathlib import Path

import torch

from simgpu.backend.pytorch.replacements import Replacements

# Functions that a program, or PyTorch for it, calls, and what to do instead.
_REFUSED = {
    "torch.cuda:_lazy_init": "take the device from torch.accelerator.current_accelerator(), and "
    "call torch.accelerator instead of torch.cuda",
    "torch.cuda:set_device": "write torch.accelerator.set_device_index(local_rank)",
    "torch.cuda:synchronize": "write torch.accelerator.synchronize()",
    "torch.cuda:Stream.__new__": "write torch.Stream(device)",
    "torch.cuda:Event.__new__": "write torch.Event(device, enable_timing=...)",
    "torch.cuda:memory_allocated": "write torch.accelerator.memory_allocated()",
    "torch.cuda:max_memory_allocated": "write torch.accelerator.max_memory_allocated()",
}
_AMP = (torch.amp.autocast, torch.amp.GradScaler)  # silently disabled without CUDA


class CudaError(RuntimeError):
    """A script on simulated GPUs uses CUDA."""

    def __init__(self, instead):
        super().__init__(
            f"this uses CUDA; {instead}; then the same script runs here, on NCCL and on gloo"
        )


@contextmanager
def no_cuda():
    """Refuse CUDA inside a ``with`` block."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with Replacements() as scoped:
        scoped.add({name: _refusal(instead) for name, instead in _REFUSED.items()})
        scoped.add({f"torch.amp:{kind.__name__}.__init__": _checked(kind) for kind in _AMP})
        yield
    del os.environ["CUDA_VISIBLE_DEVICES"]
    if visible is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible


def _refusal(instead):
    def refuse(*args, **kwargs):
        raise CudaError(instead)

    return refuse


def _checked(kind):
    """Return an ``__init__`` for a class that takes a device type, which refuses ``"cuda"``."""
    init, name = kind.__init__, kind.__name__
    default = "cuda" if kind is torch.amp.GradScaler else None

    @functools.wraps(init)
    def checked(self, *args, **kwargs):
        wanted = args[0] if args else kwargs.get("device", kwargs.get("device_type", default))
        if str(wanted).partition(":")[0] == "cuda":
            raise CudaError(f"write {name}(device.type)")
        init(self, *args, **kwargs)

    return checked


def lines_with_cuda(path) -> list[str]:
    """Return the lines of a script that mention CUDA or NCCL, as ``train.py:7``."""
    with tokenize.open(path) as file:
        return [
            f"{Path(path).name}:{number}"
            for number, text in enumerate(file, 1)
            if re.search(r"\b(cuda|nccl)\b", text.partition("#")[0])
        ]

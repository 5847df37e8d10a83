"""Raise an error for features of PyTorch that ranks do not support."""

from simgpu.backend.pytorch.replacements import exists
from simgpu.clock.hooks import hooks

_REFUSED = {
    "torch:compile": ("torch.compile", "run the module as it is"),
    "torch.nn:Module.compile": ("Module.compile", "run the module as it is"),
    "torch.distributed.rpc:init_rpc": (
        "torch.distributed.rpc (init_rpc)",
        "send objects by send_object_list or broadcast_object_list, tensors by send and recv",
    ),
}


def replacements() -> dict:
    """Return the replacements of PyTorch's names while ranks run."""
    return {
        n: _refuse(*reason)
        for n, reason in _REFUSED.items()
        if n not in hooks.accepted and exists(n)
    }


def _refuse(what, instead):
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{what} does not work on simulated GPUs; {instead}")

    return refuse

"""FSDP1 on ranks: the devices that it names by number, and what it cannot do here."""

import functools
import inspect
from types import SimpleNamespace

import torch

# Its default group is that of the process that imports it: here, where there is none yet.
import torch.distributed.fsdp.sharded_grad_scaler

from simgpu.backend.pytorch.replacements import exists, find
from simgpu.clock import current
from simgpu.naming import device_type


def _device(number=None):
    return torch.device(device_type(), current.current_device() if number is None else number)


def _named(get):
    """Wrap a function of FSDP1 that makes devices of numbers.

    PyTorch gives a number the slot's own name, and the tensors of ranks may have another. The first
    argument may be such a number, and the last one tells that of the current device.
    """
    handle = SimpleNamespace(current_device=_device)

    @functools.wraps(get)
    def named(first, *others):
        return get(_device(first) if isinstance(first, int) else first, *others[:-1], handle)

    return named


def _without_offloading(init):
    """Wrap the constructor to refuse parameters that wait on the host."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def refuse(*args, **kwargs):
        offload = signature.bind(*args, **kwargs).arguments.get("cpu_offload")
        if offload is not None and offload.offload_params:
            raise NotImplementedError(
                "FullyShardedDataParallel with CPUOffload(offload_params=True) does not work on "
                "simulated GPUs; use fully_shard with CPUOffloadPolicy (FSDP2)"
            )
        init(*args, **kwargs)

    return refuse


def replacements() -> dict:
    """Return the replacements of PyTorch's names while ranks run."""
    package = "torch.distributed.fsdp"
    wrappers = {
        f"{package}:FullyShardedDataParallel.__init__": _without_offloading,
        f"{package}._init_utils:_get_device_from_device_id": _named,
        f"{package}._init_utils:_get_compute_device": _named,
    }
    return {name: wrap(find(name)) for name, wrap in wrappers.items() if exists(name)}

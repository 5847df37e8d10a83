"""FSDP1 on ranks: devices that it names by number, what it cannot do here, norms of shards."""

import functools
import inspect
from types import SimpleNamespace

import torch

# Its default group is that of the process that imports it: here, where there is none yet.
import torch.distributed.fsdp.sharded_grad_scaler

from simgpu import user_frame
from simgpu.backend.pytorch.replacements import exists, find
from simgpu.clock import current
from simgpu.naming import device_type
from simgpu.ranks.pytorch.silent_mistakes import warn

_CLIP = "torch.nn.utils:clip_grad_norm_", "torch.nn.utils.clip_grad:clip_grad_norm_"
_SHARD = "_is_shard_of_fsdp1"  # an attribute of parameters


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


def _checked(init):
    """Wrap the constructor to refuse parameters that wait on the host, and to mark shards."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def constructed(self, *args, **kwargs):
        offload = signature.bind(self, *args, **kwargs).arguments.get("cpu_offload")
        if offload is not None and offload.offload_params:
            raise NotImplementedError(
                "FullyShardedDataParallel with CPUOffload(offload_params=True) does not work on "
                "simulated GPUs; use fully_shard with CPUOffloadPolicy (FSDP2)"
            )
        init(self, *args, **kwargs)
        if self._handle is not None and self._handle.uses_sharded_strategy:
            for parameter in self.parameters():
                setattr(parameter, _SHARD, True)

    return constructed


def _with_a_shard(clip):
    """Wrap `torch.nn.utils.clip_grad_norm_` to warn of a norm that is that of a shard."""

    @functools.wraps(clip)
    def watched(parameters, *args, **kwargs):
        if not isinstance(parameters, torch.Tensor):
            parameters = list(parameters)
            if any(hasattr(parameter, _SHARD) for parameter in parameters):
                warn(
                    f"clip_grad_norm_() ({user_frame.line()}) gets parameters of which "
                    "FullyShardedDataParallel keeps a shard on each rank: it takes the norm of "
                    "that shard, and ranks clip differently; call clip_grad_norm_() of the model"
                )
        return clip(parameters, *args, **kwargs)

    return watched


def replacements() -> dict:
    """Return the replacements of PyTorch's names while ranks run."""
    package = "torch.distributed.fsdp"
    wrappers = {
        f"{package}:FullyShardedDataParallel.__init__": _checked,
        f"{package}._init_utils:_get_device_from_device_id": _named,
        f"{package}._init_utils:_get_compute_device": _named,
        **dict.fromkeys(_CLIP, _with_a_shard),
    }
    return {name: wrap(find(name)) for name, wrap in wrappers.items() if exists(name)}

"""Warn of what PyTorch accepts and real GPUs run, although it has another effect than it seems."""

import functools
import warnings
from contextlib import contextmanager

from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from simgpu import user_frame
from simgpu.backend.pytorch.replacements import find
from simgpu.clock import current

_NO_SYNC = "torch.nn.parallel:DistributedDataParallel.no_sync"
_FROM_LOCAL = "torch.distributed.tensor:DTensor.from_local"


def replacements() -> dict:
    """Return the replacements of PyTorch's names while ranks run."""
    return {
        _NO_SYNC: _watch_no_sync(find(_NO_SYNC)),
        _FROM_LOCAL: staticmethod(_check_shape(find(_FROM_LOCAL))),
    }


def warn(text):
    """Warn of what a line of the rank that runs does, at the caller of the wrapped function."""
    warnings.warn(f"on rank {current.ranks.rank.number}: {text}", stacklevel=3)


def _watch_no_sync(no_sync):
    @functools.wraps(no_sync)
    @contextmanager
    def watched(self):
        line, forwards = user_frame.line(), []
        hook = self.register_forward_pre_hook(lambda *_: forwards.append(True))
        before = getattr(self.process_group, "num_calls", 0)
        try:
            with no_sync(self):
                yield
        finally:
            hook.remove()
        if not forwards and getattr(self.process_group, "num_calls", 0) > before:
            warn(
                f"no_sync() ({line}) is around the backward pass alone, so gradients are summed "
                "all the same: DistributedDataParallel decides that in the forward pass; put the "
                "forward pass inside as well"
            )

    return watched


def _check_shape(from_local):
    @functools.wraps(from_local)
    def checked(local_tensor, *args, **kwargs):
        tensor = from_local(local_tensor, *args, **kwargs)
        mesh, placements = tensor.device_mesh, tensor.placements
        if mesh.get_coordinate() is None:  # this rank is not in it
            return tensor
        implied, _ = compute_local_shape_and_global_offset(tensor.shape, mesh, placements)
        if tuple(implied) != tuple(local_tensor.shape):
            warn(
                f"DTensor.from_local() ({user_frame.line()}) gets a local tensor of "
                f"{tuple(local_tensor.shape)}; of a tensor of {tuple(tensor.shape)} with "
                f"{placements}, the rank has {tuple(implied)}, and operations that communicate "
                "give wrong values; pad it, or use distribute_tensor()"
            )
        return tensor

    return checked

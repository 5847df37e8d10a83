"""Errors for what PyTorch would do wrongly on simulated GPUs, or refuse without a remedy."""

import functools
import multiprocessing.context
import re
from multiprocessing.reduction import ForkingPickler

from simgpu.backend.pytorch.replacements import find
from simgpu.backend.tensor import SimTensor
from simgpu.naming import TYPES

_DATA_PARALLEL = "torch.nn.parallel.data_parallel"
_BACKWARD = "torch.autograd:_engine_run_backward"
_TO_DLPACK = "torch:to_dlpack", "torch.utils.dlpack:to_dlpack"


def _refuse_data_parallel():
    """Make `nn.DataParallel` raise an error instead of silently using one device."""
    find_type = find(f"{_DATA_PARALLEL}:_get_available_device_type")
    init, forward = (find(f"{_DATA_PARALLEL}:DataParallel.{n}") for n in ("__init__", "forward"))

    def refuse(module):
        if any(isinstance(p, SimTensor) for p in module.parameters()):
            raise NotImplementedError(
                "nn.DataParallel scatters and gathers with code for CUDA only; on simulated GPUs "
                "copy the module to each device and split the batch yourself"
            )

    @functools.wraps(init)
    def checked_init(self, module, *args, **kwargs):
        refuse(module)
        init(self, module, *args, **kwargs)

    @functools.wraps(forward)
    def checked_forward(self, *inputs, **kwargs):
        refuse(self)
        return forward(self, *inputs, **kwargs)

    def real_type():
        kind = find_type()
        return None if kind in TYPES else kind

    return {
        f"{_DATA_PARALLEL}:_get_available_device_type": real_type,  # modules on the host stay there
        f"{_DATA_PARALLEL}:DataParallel.__init__": checked_init,
        f"{_DATA_PARALLEL}:DataParallel.forward": checked_forward,
    }


def _refuse_sending(tensor):
    """Refuse to send a tensor to another process.

    A queue pickles in a thread whose errors are lost, so the error is raised in the receiver.
    """
    message = (
        f"a tensor on {tensor._device.name} cannot be sent to another process, which has simulated "
        "GPUs of its own or none; send tensor.cpu() and move it there. A dataset that workers of a "
        "DataLoader read must return host tensors"
    )
    if multiprocessing.context.get_spawning_popen() is not None:
        _raise(message)
    return _raise, (message,)


def _raise(message):
    raise NotImplementedError(message)


def _name_types():
    """Make errors of the backward pass name types as ``tensor.type()`` does, not as ``meta``."""
    run = find(_BACKWARD)

    @functools.wraps(run)
    def run_and_name(*args, **kwargs):
        try:
            return run(*args, **kwargs)
        except RuntimeError as error:
            text = re.sub(r"\bMeta(\w+)Type\b", r"torch.sim.\1Tensor", str(error))
            if text == str(error):
                raise
            raise RuntimeError(text) from None

    return {_BACKWARD: run_and_name}


def _refuse_export():
    """Make `torch.to_dlpack` refuse as ``Tensor.__dlpack__`` does, and not name ``meta``."""
    export = find(_TO_DLPACK[0])

    @functools.wraps(export)
    def to_dlpack(tensor):
        return tensor.__dlpack__() if isinstance(tensor, SimTensor) else export(tensor)

    return dict.fromkeys(_TO_DLPACK, to_dlpack)


def replacements() -> dict:
    """Return the replacements that raise these errors."""
    return {**_refuse_data_parallel(), **_name_types(), **_refuse_export()}


ForkingPickler.register(SimTensor, _refuse_sending)

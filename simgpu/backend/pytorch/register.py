"""Telling PyTorch about simulated GPUs, once a process."""

import functools
import importlib
import sys
import warnings

import torch

from simgpu.backend.pytorch import (
    accelerator,
    autocast,
    device_module,
    lazy_modules,
    modules,
    refusals,
    special,
)
from simgpu.backend.pytorch.factories import (
    FROM_NUMBERS,
    empty,
    empty_strided,
    make_factory,
    route_meta,
)
from simgpu.backend.tensor import SimTensor
from simgpu.clock import current
from simgpu.naming import claim_slot, is_accelerator, is_ordinary

_libraries = []


def _group_by_real_device(group):
    """Let PyTorch's grouping of optimiser tensors name simulated devices as users do."""

    @functools.wraps(group)
    def grouped(*args, **kwargs):
        return {
            (device if is_ordinary(device) else current.find_device(device).torch_device, dtype): ts
            for (device, dtype), ts in group(*args, **kwargs).items()
        }

    return grouped


def register() -> None:
    """Tell PyTorch about simulated GPUs, once a process.

    `configure` calls this, not the import: a process that only uses real GPUs is not touched.
    Beside a real accelerator nothing that belongs to it changes (`simgpu.naming`).
    """
    if _libraries:
        return
    module = device_module.make()
    torch._register_device_module(claim_slot(), module)
    torch.sim = sys.modules["torch.sim"] = module
    if is_accelerator():
        accelerator.register()
    library = torch.library.Library("aten", "IMPL")
    makers = {"empty.memory_format": empty, "empty_strided": empty_strided}
    makers.update((name, make_factory(name)) for name in FROM_NUMBERS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Meta's kernels are replaced is the intention
        for name, make in makers.items():
            library.impl(name, make, "PrivateUse1")
            library.impl(name, route_meta(name, make), "Meta", allow_override=True)
    for name in ("torch.optim.optimizer", "torch.utils._foreach_utils"):
        importlib.import_module(name)._foreach_supported_types.append(SimTensor)
    refusals.register()
    modules.register()
    lazy_modules.register()
    special.register(library)
    torch._C._group_tensors_by_device_and_dtype = _group_by_real_device(
        torch._C._group_tensors_by_device_and_dtype
    )
    _libraries.extend((library, *autocast.register()))

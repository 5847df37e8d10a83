"""Registering simulated GPUs with PyTorch, while there are any."""

import functools
import importlib
import sys
import warnings

import torch

from simgpu.backend.attention import kernels as attention
from simgpu.backend.operations import eight_bit_products  # noqa: F401 (its handlers)
from simgpu.backend.pytorch import (
    accelerator,
    autocast,
    device_module,
    lazy_modules,
    modules,
    padded_encoder,
    refusals,
    rms_norm,
    special,
)
from simgpu.backend.pytorch.factories import (
    FROM_NUMBERS,
    empty,
    empty_strided,
    make_factory,
    route_meta,
)
from simgpu.backend.pytorch.replacements import Replacements
from simgpu.backend.tensor import SimTensor
from simgpu.clock import current
from simgpu.naming import claim_slot, is_accelerator, is_ordinary

_permanent: list = []  # libraries of kernels that only simulated tensors reach
_scoped = Replacements()  # open while there is a machine


def _group_by_simulated_device():
    """Make PyTorch's grouping of optimiser tensors name simulated devices as users do."""
    group = torch._C._group_tensors_by_device_and_dtype

    @functools.wraps(group)
    def grouped(*args, **kwargs):
        return {
            (device if is_ordinary(device) else current.find_device(device).torch_device, dtype): ts
            for (device, dtype), ts in group(*args, **kwargs).items()
        }

    return {"torch._C:_group_tensors_by_device_and_dtype": grouped}


def factories() -> dict:
    """Return the kernels that create tensors on a simulated device, by their operations."""
    allocating = {"empty.memory_format": empty, "empty_strided": empty_strided}
    return allocating | {name: make_factory(name) for name in FROM_NUMBERS}


def _register_device():
    """Register the device type, once per process: PyTorch cannot unregister it, and need not."""
    module = device_module.make()
    torch._register_device_module(claim_slot(), module)
    torch.sim = sys.modules["torch.sim"] = module
    if is_accelerator():
        accelerator.register()
    library = torch.library.Library("aten", "IMPL")
    for name, factory in factories().items():
        library.impl(name, factory, "PrivateUse1")
    _permanent.extend((library, *autocast.register()))


def register() -> None:
    """Register simulated GPUs with PyTorch, until `unregister`.

    `configure` calls this, not the import: a process that only uses real GPUs is not affected.
    Nothing that belongs to a real accelerator changes (`simgpu.naming`).
    """
    if not _permanent:
        _register_device()
    if _scoped.is_open:
        return
    if is_accelerator():
        _scoped.add(accelerator.replacements())
    for replacements in (
        refusals.replacements, modules.replacements, lazy_modules.replacements,
        padded_encoder.replacements, _group_by_simulated_device,
    ):  # fmt: skip
        _scoped.add(replacements())
    for name in ("torch.optim.optimizer", "torch.utils._foreach_utils"):
        types = importlib.import_module(name)._foreach_supported_types
        types.append(SimTensor)
        _scoped.callback(types.remove, SimTensor)
    library = torch.library.Library("aten", "IMPL")
    _scoped.callback(library._destroy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is intended that Meta's kernels are replaced
        for name, factory in factories().items():
            library.impl(name, route_meta(name, factory), "Meta", allow_override=True)
    special.register(library)
    rms_norm.register(library)
    attention.register(library)


def unregister() -> None:
    """Restore all names of PyTorch that `register` replaced.

    What stays does not affect other tensors: the device type's name, its module `torch.sim`, and
    kernels that only simulated tensors reach.
    """
    _scoped.close()

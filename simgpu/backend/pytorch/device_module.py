"""`torch.sim`: simulated GPUs under the names of `torch.cuda`."""

import types

from simgpu.device_api.table import FUNCTIONS


def make() -> types.ModuleType:
    """Return the module that PyTorch calls for devices of this type."""
    module = types.ModuleType("torch.sim", "Simulated GPUs, under the names of `torch.cuda`.")
    vars(module).update(FUNCTIONS)
    return module

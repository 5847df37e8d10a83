"""What PyTorch's dispatcher is told: kernels that create tensors on ``cuda``, and autocast."""

import warnings

import torch

from simgpu.backend.pytorch import autocast
from simgpu.backend.pytorch.register import factories

_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
# Simulated tensors follow the rules of autocast("sim") and autocast("cuda"): one is on at a time.
AUTOCAST_KEYS = _KEYS | torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)


def register() -> list:
    """Register the kernels; return the libraries, which `_destroy` removes again."""
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is intended that CUDA's kernels are replaced
        for name, factory in factories().items():
            library.impl(name, factory, "CUDA", allow_override=True)
        autocast.add_rules(library, "AutocastCUDA", "cuda", allow_override=True)
    return [library]


def replacements() -> dict:
    """Return the replacements."""
    return {"simgpu.backend.tensor:_AUTOCAST_KEYS": AUTOCAST_KEYS}

"""Simulated GPUs: values computed on the CPU, time and memory from a model that you can read.

Tensors on ``sim:0``, ``sim:1``, ... behave like CUDA tensors. Their values are computed on the CPU;
how long this would take on GPUs, and whether it would fit into their memory, follows from a few
numbers about the hardware. The same program takes the same simulated time in every run.

- **Host clock.** Launching an operation costs the host `launch_overhead`, and a collective or a
  message `collective_launch_overhead`; the host does not wait.
- **Streams.** An operation starts when the host has launched it, earlier work in its stream has
  finished, and its engine is free; it lasts
  ``kernel_overhead + max(FLOPs / (peak * efficiency), bytes / (bandwidth * efficiency))``.
- **Engines.** The kernels of a device share one compute engine; copies have one per direction.
- **Memory** is counted in blocks, which lie in segments as PyTorch's allocator reserves them, and
  runs out as on a real GPU.

Not modelled: contention for host memory, for links, and between collectives and kernels (ranks
model the last two), kernel selection (except of attention, which runs in the kernel that PyTorch
would choose on that GPU, see `simgpu.backend.attention`), fusion (except of what ``simgpu run``
finds compiled, see `simgpu.compiled`), FLOPs of factorisations, full launch queues, caches,
changing clock rates, library workspaces, staged copies that slow each other down, and the time of
Python itself. The backward pass runs on the stream that is current when it is called, not on those
of the forward pass.

Values are computed immediately, in program order. A missing wait between streams, or a buffer that
is overwritten or freed too early, may change times but never values: `check_races` finds them.

Programs for `torch.distributed` run under `spawn` or ``simgpu run``, on one node or on many; their
communication takes as long as NCCL's would (`simgpu.network.collective_costs`). `simgpu.plan`
predicts a step of a model on many GPUs, `simgpu.compare` puts a run beside it and beside published
ones.

Not supported: sparse and nested tensors, ``torch.compile`` outside ``simgpu run`` (call `compile`),
``nn.DataParallel``, generators on a device, tensors in forked processes. Conjugate and negative
views are copies.

Examples
--------
>>> import torch
>>> import simgpu as sim
>>> devices = sim.configure(2, gpu="v100", link="pcie3")
>>> x = torch.ones(1000, 1000, device=devices[0])
>>> y = (x @ x).to(devices[1])
>>> y.device, y[0, 0].item()
(device(type='sim', index=1), 1000.0)
>>> sim.now() > 0
True
"""

import sys as _sys
from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from simgpu.api import *  # noqa: F403

__version__ = "0.1.0"


def __getattr__(name):
    """Import a module when its name is first used, and all of `simgpu.api` with any other name."""
    special = name.startswith("__")
    if not special and _find_spec(f"{__name__}.{name}"):
        return _import_module(f"{__name__}.{name}")
    if special and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _load(name)


def _load(name):
    """Import the public names, which import PyTorch; return that of one of them."""
    from simgpu import api

    public = {each: getattr(api, each) for each in ("__all__", *api.__all__)}
    globals().update(public)
    if name not in public:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return public[name]


def __dir__():
    return [*globals(), *_load("__all__")]


if "torch" in _sys.modules:  # nothing to save
    _load("__all__")

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

Not supported: sparse and nested tensors, ``torch.compile`` outside ``simgpu run``,
``nn.DataParallel``, generators on a device, tensors in forked processes, FSDP1. Conjugate and
negative views are copies.

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

from importlib import import_module as _import_module

from simgpu import saving as _saving
from simgpu.backend.check_races import check_races
from simgpu.backend.operations.host_ops import host_ops
from simgpu.backend.pinned import empty_pinned, is_pinned, pin_memory
from simgpu.backend.tensor import SimTensor
from simgpu.calibrate import calibrate
from simgpu.clock.current import (
    current_device,
    device_count,
    is_numeric,
    machine_in_use,
    set_device,
)
from simgpu.clock.queries import (
    current_stream,
    default_stream,
    get_device_spec,
    get_link_spec,
    max_memory_allocated,
    memory_allocated,
    now,
    reset,
    reset_peak_memory_stats,
    synchronize,
    trace,
)
from simgpu.clock.span import Span
from simgpu.clock.streams import Event, Stream
from simgpu.configure import close, configure, machine
from simgpu.hardware import (
    CPU,
    CPUS,
    GPU,
    GPUS,
    LINKS,
    Link,
    find_cpu,
    find_gpu,
    find_link,
    set_default_gpu,
)
from simgpu.kernels.register import register_kernel
from simgpu.naming import device_name, is_simulated, torch_device
from simgpu.races.detector import RaceError
from simgpu.ranks.process.scheduler import RanksError
from simgpu.ranks.spawn import spawn

__version__ = "0.1.0"
_saving.register()


def __getattr__(name):
    """Import `simgpu.plan` and `simgpu.compare` when they are first used."""
    if name in ("plan", "compare"):
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "CPU",
    "CPUS",
    "GPU",
    "GPUS",
    "LINKS",
    "Event",
    "Link",
    "RaceError",
    "RanksError",
    "SimTensor",
    "Span",
    "Stream",
    "calibrate",
    "check_races",
    "close",
    "configure",
    "current_device",
    "current_stream",
    "default_stream",
    "device_count",
    "device_name",
    "empty_pinned",
    "find_cpu",
    "find_gpu",
    "find_link",
    "get_device_spec",
    "get_link_spec",
    "host_ops",
    "is_numeric",
    "is_pinned",
    "is_simulated",
    "machine",
    "machine_in_use",
    "max_memory_allocated",
    "memory_allocated",
    "now",
    "pin_memory",
    "register_kernel",
    "reset",
    "reset_peak_memory_stats",
    "set_default_gpu",
    "set_device",
    "spawn",
    "synchronize",
    "torch_device",
    "trace",
]

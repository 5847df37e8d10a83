"""Simulated GPUs: real numbers on the CPU, time and memory by a model that can be read.

Tensors on ``sim:0``, ``sim:1``, ... behave like CUDA tensors. Their values are computed on the CPU;
how long that would have taken on GPUs, and whether it would have fitted, follows from a few numbers
about the hardware. Times depend on the program alone.

- **Host clock.** Launching an operation costs the host `launch_overhead`; it does not wait.
- **Streams.** An operation starts when the host has launched it, its stream is done with what came
  before, and its engine is free; it lasts
  ``kernel_overhead + max(FLOPs / (peak * efficiency), bytes / (bandwidth * efficiency))``.
- **Engines.** A device's kernels share one compute engine; copies have one engine a direction.
- **Memory** is counted in blocks, and runs out as on the real thing.

Left out: contention on the host's memory and between links (communication of ranks does share its
wires), the multiprocessors and the memory bandwidth that collectives take from kernels, kernel
selection and fusion (attention runs as products and a softmax), FLOPs of
factorisations, launch queues that fill up, caches, clocks that change, fragmentation, workspaces of
libraries, staged copies that slow each other down, and Python's own time. The backward pass runs on
the stream that is current when it is called, not on those of the forward pass.

Values are computed at once, in the order of the program. So a stream that does not wait, a buffer
that is overwritten too early or memory that is reused too early shows in times at most, never in
values: `check_races` finds them.

Programs for `torch.distributed` run under `spawn`, or by ``simgpu run``, on one node
or on many; what their communication takes is NCCL's (`simgpu.network.collective_costs`).

Not supported: sparse and nested tensors, ``torch.compile``, ``nn.DataParallel``, generators on a
device, tensors in forked processes, FSDP1, ``context_parallel``. Conjugate and negative views are
copies.

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
from simgpu.naming import device_name, is_simulated, torch_device
from simgpu.races.detector import RaceError
from simgpu.ranks.process.scheduler import RanksError
from simgpu.ranks.spawn import spawn

_saving.register()

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
    "reset",
    "reset_peak_memory_stats",
    "set_default_gpu",
    "set_device",
    "spawn",
    "synchronize",
    "torch_device",
    "trace",
]

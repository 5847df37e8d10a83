"""The public names of `simgpu`, imported together when the first of them is used.

They import PyTorch, which takes seconds; ``simgpu --help`` needs neither.
"""

import simgpu.saving  # noqa: F401  it registers simulated devices with torch.load
from simgpu.backend.check_races import check_races
from simgpu.backend.operations.host_ops import host_ops
from simgpu.backend.pinned import empty_pinned, is_pinned, pin_memory
from simgpu.backend.tensor import SimTensor
from simgpu.calibration import calibrate
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
from simgpu.compiled.regions import compile
from simgpu.configuration import close, configure, machine
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
    "compile",
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

"""`torch.sim`: simulated GPUs under the names of `torch.cuda`."""

import types

import torch

from simgpu.clock import current, queries
from simgpu.clock.streams import Event, Stream


class _DeviceContext:
    """``with torch.sim.device(i):``, like ``torch.cuda.device``."""

    def __init__(self, device):
        self._index = current.find_device(device).index

    def __enter__(self):
        self._outer = current.current_device()
        current.set_device(self._index)

    def __exit__(self, *_):
        current.set_device(self._outer)


def _get_rng_state(device=None):
    return current.find_device(device).generator.get_state()


def _set_rng_state(state, device=None):
    current.find_device(device).generator.set_state(state)


def _properties(device=None):
    spec = queries.get_device_spec(device)
    return types.SimpleNamespace(name=f"simulated {spec.name}", total_memory=int(spec.memory))


def make() -> types.ModuleType:
    """Return the module that PyTorch calls for devices of this type."""
    module = types.ModuleType("torch.sim", "Simulated GPUs, under the names of `torch.cuda`.")
    module.is_available = lambda: current.device_count() > 0
    module.is_initialized = lambda: True
    module._initialized = True  # checkpointing reads it before it saves random states
    module._is_in_bad_fork = lambda: False
    module._lazy_init = lambda: None
    module.manual_seed_all = queries.seed_all
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    module.get_rng_state = _get_rng_state
    module.set_rng_state = _set_rng_state
    module.device = _DeviceContext
    module.stream = lambda stream: stream
    module.Stream, module.Event = Stream, Event
    module.get_device_properties = _properties
    for name in (
        "device_count", "current_device", "set_device", "current_stream", "default_stream",
        "synchronize", "memory_allocated", "max_memory_allocated", "reset_peak_memory_stats",
    ):  # fmt: skip
        setattr(module, name, getattr(current if hasattr(current, name) else queries, name))
    return module

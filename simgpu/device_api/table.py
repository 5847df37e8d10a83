"""The table: names of `torch.cuda`, and what they are on simulated GPUs.

A program finds these names in `torch.sim`, and under ``simgpu run`` in `torch.cuda`.
"""

from collections import OrderedDict

import torch

from simgpu.clock import current, queries
from simgpu.clock.streams import Event, Stream
from simgpu.device_api import devices, memory, random, streams

DEVICES = {
    "is_available": devices.is_available,
    "device_count": devices.device_count,
    "current_device": current.current_device,
    "set_device": devices.set_device,
    "device": devices.DeviceContext,
    "device_of": devices.DeviceOf,
    "_DeviceGuard": devices.DeviceContext,
    "_exchange_device": devices.exchange,
    "_maybe_exchange_device": devices.exchange,
    "get_device_properties": devices.get_device_properties,
    "get_device_name": devices.get_device_name,
    "get_device_capability": devices.get_device_capability,
    "get_arch_list": devices.get_arch_list,
    "get_gencode_flags": lambda: "",
    "is_bf16_supported": devices.is_bf16_supported,
    "is_tf32_supported": devices.is_tf32_supported,
    "can_device_access_peer": devices.can_device_access_peer,
    "synchronize": devices.synchronize,
    "init": memory.nothing,
    "_lazy_init": memory.nothing,
    "_lazy_call": lambda call, **_: call(),
    "is_initialized": lambda: True,
    "_initialized": True,  # checkpointing reads it before it saves random states
    "_is_in_bad_fork": lambda: False,
    "get_sync_debug_mode": lambda: 0,
    "set_sync_debug_mode": memory.nothing,
    "get_amp_supported_dtype": lambda: [torch.bfloat16, torch.float16],
}
STREAMS = {
    "Stream": Stream,
    "Event": Event,
    "StreamContext": streams.StreamContext,
    "stream": streams.stream,
    "set_stream": streams.set_stream,
    "current_stream": queries.current_stream,
    "default_stream": queries.default_stream,
    "is_current_stream_capturing": lambda: False,
    "ipc_collect": memory.nothing,
}
MEMORY = {
    "memory_allocated": queries.memory_allocated,
    "max_memory_allocated": queries.max_memory_allocated,
    "memory_reserved": memory.memory_reserved,
    "max_memory_reserved": memory.max_memory_reserved,
    "memory_cached": memory.memory_reserved,
    "max_memory_cached": memory.max_memory_reserved,
    "device_memory_used": memory.memory_reserved,
    "reset_peak_memory_stats": queries.reset_peak_memory_stats,
    "reset_max_memory_allocated": queries.reset_peak_memory_stats,
    "reset_max_memory_cached": queries.reset_peak_memory_stats,
    "reset_accumulated_memory_stats": memory.nothing,
    "empty_cache": memory.empty_cache,
    "mem_get_info": memory.mem_get_info,
    "memory_stats": memory.memory_stats,
    "memory_stats_as_nested_dict": memory.memory_stats_as_nested_dict,
    "memory_summary": memory.memory_summary,
    "set_per_process_memory_fraction": memory.nothing,
    "get_per_process_memory_fraction": lambda device=None: 1.0,
    "get_allocator_backend": lambda: "native",
    "caching_allocator_enable": memory.nothing,
    "host_memory_stats": OrderedDict,
    "host_memory_stats_as_nested_dict": dict,
    "reset_accumulated_host_memory_stats": memory.nothing,
    "reset_peak_host_memory_stats": memory.nothing,
}
RANDOM = {
    "get_rng_state": random.get_rng_state,
    "set_rng_state": random.set_rng_state,
    "get_rng_state_all": random.get_rng_state_all,
    "set_rng_state_all": random.set_rng_state_all,
    "manual_seed": random.manual_seed,
    "manual_seed_all": random.manual_seed_all,
    "initial_seed": random.initial_seed,
    "seed": random.seed,
    "seed_all": random.seed_all,
}
FUNCTIONS = {**DEVICES, **STREAMS, **MEMORY, **RANDOM}

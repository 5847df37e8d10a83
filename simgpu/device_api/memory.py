"""Memory in use. Freed memory is not cached here: reserved memory is allocated memory."""

from collections import OrderedDict

from simgpu.clock import current, queries


def mem_get_info(device=None) -> tuple:
    """Return the free and the total bytes of a device."""
    memory = current.find_device(device).memory
    return memory.capacity - memory.allocated, memory.capacity


def memory_stats_as_nested_dict(device=None) -> dict:
    """Return the bytes in use, and their peak, as PyTorch's allocator nests them."""
    now, peak = queries.memory_allocated(device), queries.max_memory_allocated(device)
    in_use = {"current": now, "peak": peak, "allocated": 0, "freed": 0}
    nothing = dict.fromkeys(in_use, 0)
    found = {
        name: {pool: dict(in_use) for pool in ("all", "large_pool", "small_pool")}
        for name in ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
    }
    for name in ("allocation", "segment", "active", "inactive_split", "inactive_split_bytes"):
        found[name] = {"all": dict(nothing)}
    return {**found, "num_alloc_retries": 0, "num_ooms": 0, "num_sync_all_streams": 0,
            "max_split_size": -1}  # fmt: skip


def memory_stats(device=None) -> OrderedDict:
    """Return what `memory_stats_as_nested_dict` does, under names joined by dots."""
    found = []

    def flatten(prefix, value):
        if isinstance(value, dict):
            for name, inner in value.items():
                flatten(f"{prefix}{name}.", inner)
        else:
            found.append((prefix[:-1], value))

    flatten("", memory_stats_as_nested_dict(device))
    return OrderedDict(sorted(found))


def memory_summary(device=None, abbreviated=False) -> str:
    """Return the memory in use in one line."""
    found = current.find_device(device)
    return (
        f"{found.name} (simulated): {found.memory.allocated} bytes allocated, peak "
        f"{found.memory.peak}, of {found.memory.capacity}; freed memory is not cached"
    )


def nothing(*_, **__) -> None:
    """Take a setting of PyTorch's allocator for CUDA, which has no effect here."""

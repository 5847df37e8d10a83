"""Memory in use, and the memory that PyTorch's caching allocator would reserve for it."""

from collections import OrderedDict

from simgpu.clock import current, queries


def mem_get_info(device=None) -> tuple:
    """Return the bytes of a device that are not reserved, and all of them."""
    memory = current.find_device(device).memory
    return memory.capacity - memory.segments.reserved, memory.capacity


def memory_reserved(device=None) -> int:
    """Return the bytes of the segments that the caching allocator would hold now."""
    return current.find_device(device).memory.segments.reserved


def max_memory_reserved(device=None) -> int:
    """Return the peak of `memory_reserved` since the start or the last reset, in bytes."""
    return current.find_device(device).memory.segments.peak


def empty_cache() -> None:
    """Give all segments in which nothing is used back to their devices."""
    for device in current.own_devices():
        device.memory.empty_cache()


def memory_stats_as_nested_dict(device=None) -> dict:
    """Return the bytes in use, and their peak, as PyTorch's allocator nests them."""
    now, peak = queries.memory_allocated(device), queries.max_memory_allocated(device)
    in_use = {"current": now, "peak": peak, "allocated": 0, "freed": 0}
    nothing = dict.fromkeys(in_use, 0)
    reserved = in_use | {"current": memory_reserved(device), "peak": max_memory_reserved(device)}
    bytes_by_name = dict.fromkeys(("allocated_bytes", "active_bytes", "requested_bytes"), in_use)
    found = {
        name: {pool: dict(values) for pool in ("all", "large_pool", "small_pool")}
        for name, values in (bytes_by_name | {"reserved_bytes": reserved}).items()
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
        f"{found.memory.peak}, of {found.memory.capacity}; reserved {memory_reserved(device)}, "
        f"peak {max_memory_reserved(device)}"
    )


def nothing(*_, **__) -> None:
    """Take a setting of PyTorch's allocator for CUDA, which has no effect here."""

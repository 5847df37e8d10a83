"""The names of the collectives, and how nccl-tests computes bandwidths from their times."""

COLLECTIVES = (
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "broadcast",
    "reduce",
    "all_to_all",
    "gather",
    "scatter",
    "send",
)


def check_collective(collective):
    """Raise ValueError if `collective` is unknown."""
    if collective not in COLLECTIVES:
        raise ValueError(f"unknown collective {collective!r}; give one of {', '.join(COLLECTIVES)}")


def bus_factor(collective, num_members):
    """Return the factor from size / time to ``busbw`` (PERFORMANCE.md of nccl-tests).

    Examples
    --------
    >>> bus_factor("all_reduce", 8), bus_factor("all_gather", 8), bus_factor("broadcast", 8)
    (1.75, 0.875, 1.0)
    """
    check_collective(collective)
    if collective in ("broadcast", "reduce", "send"):
        return 1.0
    rounds = 2 if collective == "all_reduce" else 1
    return rounds * (num_members - 1) / num_members


def seconds_at(collective, num_bytes, num_members, bus_bandwidth):
    """Return the time of a collective from its published ``busbw`` (bytes/s)."""
    return num_bytes * bus_factor(collective, num_members) / bus_bandwidth

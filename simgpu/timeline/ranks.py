"""Align the clocks of traces of several ranks."""

from simgpu.timeline.profiler import EPOCH


def rank_of(trace):
    """Return the rank that wrote a trace, or None."""
    info = trace.fields.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else None
    return rank if type(rank) is int and rank >= 0 else None


def base_of(trace, first):
    """Return the time at which a trace's clock is 0, in nanoseconds since 1970, or None.

    `first` is its earliest time, in microseconds. PyTorch 2.4 and later record this base time;
    times of earlier versions are relative to 1970.
    """
    base = trace.fields.get("baseTimeNanoseconds")
    if type(base) is int and 0 <= base < 2**63:
        return base
    return 0 if first > EPOCH else None


def shifts(traces, firsts):
    """Return the offset to add to the times of each trace, in microseconds, to align their clocks.

    Parameters
    ----------
    traces : list of Trace
        Traces of one job.
    firsts : list of float
        Their earliest times.

    Raises
    ------
    ValueError
        If ranks are unknown or occur twice, or a trace lacks the time of its recording.
    """
    seen, bases = {}, []
    for trace, first in zip(traces, firsts, strict=True):
        rank, base = rank_of(trace), base_of(trace, first)
        if rank is None:
            raise ValueError(
                f"{trace.name} does not state its rank in 'distributedInfo'; profile after "
                "torch.distributed.init_process_group, or read the file on its own"
            )
        if rank in seen:
            raise ValueError(
                f"{trace.name} and {seen[rank]} are both of rank {rank}; give one file per rank"
            )
        if base is None:
            raise ValueError(
                f"the clock of {trace.name} cannot be aligned with the others: it has no valid "
                "'baseTimeNanoseconds'; record it with PyTorch 2.4 or later, or read it on its own"
            )
        seen[rank] = trace.name
        bases.append(base)
    return [(base - bases[0]) / 1e3 for base in bases]

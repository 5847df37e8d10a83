"""Traces of several ranks, put on one clock."""

from simgpu.timeline.profiler import EPOCH


def rank_of(trace):
    """Return the rank that wrote a trace, or None."""
    info = trace.fields.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else None
    return rank if type(rank) is int and rank >= 0 else None


def base_of(trace, first):
    """Return the moment from which a trace counts its times, in nanoseconds since 1970, or None.

    `first` is its earliest time, in microseconds. PyTorch 2.4 and later write the moment down;
    earlier versions count from 1970.
    """
    base = trace.fields.get("baseTimeNanoseconds")
    if type(base) is int and 0 <= base < 2**63:
        return base
    return 0 if first > EPOCH else None


def shifts(traces, firsts):
    """Return what to add to the times of each trace, in microseconds, so that all share a clock.

    Parameters
    ----------
    traces : list of Trace
        Of one job.
    firsts : list of float
        Their earliest times.

    Raises
    ------
    ValueError
        If ranks are unknown or occur twice, or a trace does not tell when it was recorded.
    """
    seen, bases = {}, []
    for trace, first in zip(traces, firsts, strict=True):
        rank, base = rank_of(trace), base_of(trace, first)
        if rank is None:
            raise ValueError(
                f"{trace.name} does not tell its rank in 'distributedInfo'; profile after "
                "torch.distributed.init_process_group, or read the file on its own"
            )
        if rank in seen:
            raise ValueError(
                f"{trace.name} and {seen[rank]} are both of rank {rank}; give one file of each rank"
            )
        if base is None:
            raise ValueError(
                f"{trace.name} cannot be put on one clock with the others, as it has no valid "
                "'baseTimeNanoseconds'; record it with PyTorch 2.4 or later, or read it on its own"
            )
        seen[rank] = trace.name
        bases.append(base)
    return [(base - bases[0]) / 1e3 for base in bases]

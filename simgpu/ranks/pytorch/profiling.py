"""Allow one rank at a time to use PyTorch's profiler: a second start would end the first."""

from simgpu.backend.pytorch.replacements import exists, find
from simgpu.clock import current

_START, _STOP = (f"torch.autograd.profiler:_{name}_profiler" for name in ("prepare", "disable"))


def replacements() -> dict:
    """Return the replacements of PyTorch's functions while ranks run."""
    if not (exists(_START) and exists(_STOP)):
        return {}
    start, stop = find(_START), find(_STOP)
    profiled = []  # the rank that profiles, if any

    def start_one(*args, **kwargs):
        rank = current.ranks.rank
        if any(other is not rank and not other.ended for other in profiled):
            raise RuntimeError(
                f"rank {rank.number} starts torch.profiler while rank {profiled[0].number} uses "
                "it: ranks on simulated GPUs are threads of one process, which has one profiler. "
                "Start it on one rank only (`if rank == 0:`), or use sim.trace() for all ranks"
            )
        profiled[:] = [rank]
        return start(*args, **kwargs)

    def stop_one(*args, **kwargs):
        profiled.clear()
        return stop(*args, **kwargs)

    return {_START: start_one, _STOP: stop_one}

"""PyTorch's profiler, of which a process has one: a second rank that starts it would end it."""

from simgpu.backend.pytorch.replacements import exists, find
from simgpu.ranks.communication import world

_START, _STOP = (f"torch.autograd.profiler:_{name}_profiler" for name in ("prepare", "disable"))


def replacements() -> dict:
    """Return what shall stand for PyTorch's functions while ranks run."""
    if not (exists(_START) and exists(_STOP)):
        return {}
    start, stop = find(_START), find(_STOP)
    profiled = []  # the rank, if there is one

    def start_one(*args, **kwargs):
        rank = world.active.rank
        if any(other is not rank and not other.ended for other in profiled):
            raise RuntimeError(
                f"rank {rank.number} starts torch.profiler while rank {profiled[0].number} uses "
                "it: ranks on simulated GPUs are threads of one process, which has one profiler. "
                "Start it on one rank, such as by `if rank == 0`; sim.trace() has all ranks"
            )
        profiled[:] = [rank]
        return start(*args, **kwargs)

    def stop_one(*args, **kwargs):
        profiled.clear()
        return stop(*args, **kwargs)

    return {_START: start_one, _STOP: stop_one}

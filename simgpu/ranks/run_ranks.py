"""Run a `torch.distributed` program on the ranks of a cluster, or on some of them."""

import math

import torch.distributed as dist

from simgpu.backend import tensor as backend
from simgpu.backend.check_races import in_a_rank
from simgpu.backend.pytorch.autocast import of_wrappers
from simgpu.clock import current
from simgpu.clock.current import set_device, state
from simgpu.clock.trace import OF_RANKS
from simgpu.configuration import build
from simgpu.naming import NAME, slot_type
from simgpu.network.nccl_memory import Connections
from simgpu.ranks import representatives
from simgpu.ranks.communication import folding
from simgpu.ranks.communication.communication_scheduler import CommunicationScheduler
from simgpu.ranks.communication.process_group import SimProcessGroup
from simgpu.ranks.communication.world import World
from simgpu.ranks.process import torch_internals
from simgpu.ranks.process.modules.own_modules import OwnModules
from simgpu.ranks.process.preserved_process import preserved_process
from simgpu.ranks.process.random_numbers import SeedAndOffset
from simgpu.ranks.process.rank_local_state import HostClock, RankLocalState
from simgpu.ranks.process.scheduler import CooperativeScheduler, Rank
from simgpu.ranks.pytorch import functional, sync_batch_norm
from simgpu.ranks.pytorch.patches import patched


def run_ranks(
    fn, args, cluster, numerics=True, ranks=None, slow=None, slow_cards=None, routing=None,
    alike=False,
) -> list:  # fmt: skip
    """Run ``fn(rank, *args)`` on the ranks of a cluster; return the results.

    Parameters
    ----------
    fn, args, numerics, ranks, slow, slow_cards, routing
        As for `simgpu.spawn`.
    cluster : Cluster
    alike : bool
        Whether each of `ranks` is known to do no less than those that it represents: no second run
        compares them.

    Raises
    ------
    RanksError, ValueError, RuntimeError, Exception
        As `simgpu.spawn` does.
    """
    current.refuse_in_a_rank("sim.spawn()", "start all ranks by one call")
    torch_internals.check()
    torch_internals.set_device_guard()
    functional.register()
    sync_batch_norm.register()
    register_backend()
    size = cluster.world_size
    slow, slow_cards = _factors(slow, size, ranks), _factors(slow_cards, size, ranks)
    cluster = cluster.with_slow_cards(slow_cards)

    def run(numbers, firsts, checks=True):
        return _run(fn, args, numbers, firsts, cluster, (numerics, routing), checks, slow)

    numbers = folding.check_ranks(ranks, size, numerics)
    if ranks == "auto":
        numbers, differs = representatives.search(lambda *given: run(*given)[1], size)
        results, _ = run(numbers, numbers, checks=False)
        if differs:
            raise representatives.RanksDifferError(differs)
        return results
    # Check the assumption that a rank does the same as all that it represents on the last of them.
    others = folding.last_represented(numbers, size)
    if alike or others == numbers:  # or all ranks run
        return run(numbers, numbers, checks=False)[0]
    failed = None
    try:
        works = run(others, numbers)[1]
    except Exception as error:
        failed = error
    results, own_works = run(numbers, numbers, checks=False)
    if failed is not None:  # if both fail, the error is that of a rank in `ranks`
        raise failed
    for one, other in zip(own_works, works, strict=True):
        if differs := representatives.difference(one, other):
            raise representatives.RanksDifferError(f"{differs}; run more ranks, or all")
    return results


def _factors(given, nprocs, ranks) -> dict:
    """Return checked factors of slow parts by rank."""
    given = {} if given is None else dict(given)
    if given and ranks is not None:
        raise ValueError("slow GPUs and cards need all ranks; leave `ranks` out")
    for rank, factor in given.items():
        if rank not in range(nprocs) or not 0 < factor < math.inf:
            raise ValueError(
                f"rank {rank!r} cannot be {factor!r} times as slow; give a rank from 0 to "
                f"{nprocs - 1} and a positive factor"
            )
    return given


def _run(fn, args, numbers, firsts, cluster, values, checks, slow):
    """Run the ranks `numbers` of a cluster; return their results and what their devices did.

    Each represents the ranks from its entry of `firsts` up to the next entry. `values`: whether
    there are any, and which experts tokens go to otherwise. `checks`: the run only finds out what
    ranks do.
    """
    machine = build(len(numbers), cluster.gpu, cluster.link, *values)
    communication = CommunicationScheduler(
        machine, cluster, folding.Folding(numbers, firsts, cluster.world_size)
    )
    with preserved_process(machine), OwnModules() as modules, patched():
        if len(numbers) < cluster.world_size:
            machine.trace = representatives.TraceWithLines(machine.trace)
        ranks = [
            _make_rank(machine, i, number, cluster, modules.of_rank(), slow.get(number))
            for i, number in enumerate(numbers)
        ]
        scheduler = CooperativeScheduler(ranks)
        current.ranks = World(scheduler, machine, communication, checks)

        def run(rank):
            set_device(rank.index)
            with in_a_rank(), of_wrappers():
                return modules.keep(fn(rank.number, *args))

        try:
            scheduler.run(run)
        finally:
            current.ranks.close()
            current.ranks = backend.watch = None
            scheduler.running.clock.save()
            for device in machine.devices:
                device.end_rank()
            machine.host = max(rank.clock.now for rank in ranks)
    if machine.routing:
        machine.routing.check_used()
    works = []
    if len(numbers) < cluster.world_size:
        works = [representatives.work_of(machine.devices[r.index], r.number) for r in ranks]
    return [rank.result for rank in ranks], works


def _make_rank(machine, index, number, cluster, modules, slow):
    """Create one rank, whose GPU may be `slow` times as slow, and set up its device."""
    node, local = str(cluster.node(number)), cluster.local(number)
    gpu = machine.gpu.slower(slow) if slow else machine.gpu
    machine.devices[index].as_rank(
        number, local, gpu, Connections(number, cluster), SeedAndOffset(state.seed)
    )
    host_row = -OF_RANKS - number
    machine.trace.name_row(host_row, f"rank {number} host")
    clock = HostClock(machine, host_row, index)
    environment = {
        "RANK": str(number), "LOCAL_RANK": str(local), "GROUP_RANK": node, "NODE_RANK": node,
        "WORLD_SIZE": str(cluster.world_size), "LOCAL_WORLD_SIZE": str(cluster.gpus_per_node),
        "MASTER_ADDR": "localhost", "MASTER_PORT": "29500",
    }  # fmt: skip
    state_of_rank = RankLocalState(environment, modules)
    return Rank(number, index, local, cluster.world_size, clock, state_of_rank)


def register_backend() -> None:
    """Register the simulated process group with `torch.distributed`, once per process."""
    if NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, _make_group, extended_api=True, devices=[slot_type()])


def _make_group(options, kinds):
    return SimProcessGroup(
        options.group_id, options.group_rank, options.group_size, options.global_ranks_in_group,
        kinds,
    )  # fmt: skip

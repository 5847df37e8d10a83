"""`spawn`: run a `torch.distributed` program on simulated GPUs, one rank for each."""

import torch.distributed as dist

from simgpu.backend import tensor as backend
from simgpu.backend.check_races import in_a_rank
from simgpu.clock import current
from simgpu.clock.current import set_device, state
from simgpu.clock.engine import Engine
from simgpu.clock.trace import OF_RANKS
from simgpu.configure import build
from simgpu.naming import NAME, device_type
from simgpu.network.cluster import build_cluster
from simgpu.ranks.communication import folding, world
from simgpu.ranks.communication.communication_scheduler import CommunicationScheduler
from simgpu.ranks.communication.process_group import SimProcessGroup
from simgpu.ranks.communication.world import World
from simgpu.ranks.process import torch_internals
from simgpu.ranks.process.preserved_process import preserved_process
from simgpu.ranks.process.random_numbers import SeedAndOffset
from simgpu.ranks.process.rank_local_state import HostClock, RankLocalState
from simgpu.ranks.process.scheduler import CooperativeScheduler, Rank
from simgpu.ranks.pytorch import functional, sync_batch_norm
from simgpu.ranks.pytorch.patches import patched


def spawn(
    fn, args=(), nprocs=1, gpu=None, link=None, nodes=1, network=None, numerics=True,
    ranks=None,
) -> list:  # fmt: skip
    """Run ``fn(rank, *args)`` on `nprocs` ranks, each with a simulated GPU of its own.

    What `torch.multiprocessing.spawn` does with processes, this does in one: `fn` is a program for
    `torch.distributed`, and finds what it would find under ``torchrun``. Its device, which has the
    number of its place on its node (on one node: ``sim:rank``), is the current one
    (`torch.accelerator` names it), ``RANK``, ``LOCAL_RANK``, ``WORLD_SIZE`` and the like are in its
    environment, and ``init_process_group()`` finds the other ranks. Random numbers
    begin with the caller's state.

    Every rank has its own host clock, from 0 on. Afterwards `now` returns the time at which the
    last rank was done, and `trace` what ran: ``rank 3 host`` launches for ``rank 3 sim:3``, on
    whose engine ``comm`` collectives and messages run. Of the caller's process all the rest stays
    as it was; a machine that it has configured is `reset`, and keeps its tensors. If it has none,
    that of the ranks stays in use, to be asked for memory.

    Communication takes what NCCL needs for it on such a cluster; groups that communicate at once
    share its wires.

    One rank runs at a time and hands on when it has to wait for another, so a program gives the
    same values and times in every run. What would hang or give wrong numbers on real GPUs ends at
    once: a collective that a rank skips or calls in another order, with another type or size; a
    message that nobody receives; a tensor that is read or changed before the ``wait()`` for its
    communication.

    Parameters
    ----------
    fn : callable
        The program.
    args : tuple
        What it is given besides its rank.
    nprocs : int
        How many ranks; up to 128 without `ranks`.
    gpu, link
        As for `configure`. A link stands for the board of its generation, with up to 8 GPUs
        (`simgpu.network.boards.board_of`).
    nodes : int
        On how many such boards the ranks are, the first ``nprocs / nodes`` on the first.
    network : str or Network
        What joins the nodes, if there are several: a name in
        `simgpu.network.networks.NETWORKS` or a spec.
    numerics : bool
        As for `configure`. Without, small tensors of integers and bools have values all the same,
        and ``item()`` of others is NaN.
    ranks : list of int, optional
        Run these alone, which begin with 0, and let each stand for the ranks up to the next one:
        of thousands of ranks that do the same, one; of a pipeline, the first of each stage. Needs
        ``numerics=False``. The program runs a second time with the last rank for which each
        stands; if those end at another time (as with shards of different size), folding is
        refused. Where every rank is named, it runs once.

    Returns
    -------
    list
        What `fn` has returned on each rank that has run.

    Raises
    ------
    RanksError
        If the ranks cannot go on together; the message names ranks, participants, and lines.
    ValueError
        If there can be no such ranks, GPUs, or links.
    RuntimeError
        If it is called in a rank, or PyTorch lacks what it needs.
    Exception
        The first that `fn` raises on any rank.

    Examples
    --------
    >>> import torch
    >>> import torch.distributed as dist
    >>> import simgpu as sim
    >>> def program(rank):
    ...     dist.init_process_group()
    ...     x = torch.full((2,), float(rank), device=f"sim:{rank}")
    ...     dist.all_reduce(x)
    ...     return x.tolist()
    >>> sim.spawn(program, nprocs=3, gpu="a100", link="nvlink3")
    [[3.0, 3.0], [3.0, 3.0], [3.0, 3.0]]
    """
    current.refuse_in_a_rank("sim.spawn()", "start all ranks by one call")
    torch_internals.check()
    functional.register()
    sync_batch_norm.register()
    register_backend()
    cluster = build_cluster(nprocs, gpu, link, nodes, network)
    numbers = folding.check_ranks(ranks, nprocs, numerics)
    # Ranks that run do the same as those for which they stand: so must the last of these.
    others = folding.witnesses(numbers, nprocs)
    if others == numbers:  # all of them run
        return _run(fn, args, numbers, numbers, cluster, numerics)[0]
    ends = _run(fn, args, others, numbers, cluster, numerics)[1]
    results, own_ends = _run(fn, args, numbers, numbers, cluster, numerics)
    folding.compare(numbers, own_ends, others, ends)
    return results


def _run(fn, args, numbers, firsts, cluster, numerics):
    """Run some of a cluster's ranks; return their results, and when each one ended.

    Each stands for those from one of `firsts` on until the next.
    """
    machine = build(len(numbers), cluster.gpu, cluster.link, numerics)
    machine.keeps_control = not machine.numerics
    communication = CommunicationScheduler(
        machine, cluster, folding.Folding(numbers, firsts, cluster.world_size)
    )
    with preserved_process(machine), patched():
        ranks = [_make_rank(machine, i, number, cluster) for i, number in enumerate(numbers)]
        scheduler = CooperativeScheduler(ranks)
        world.active = current.ranks = World(scheduler, machine, communication)

        def run(rank):
            set_device(rank.index)
            with in_a_rank():
                return fn(rank.number, *args)

        try:
            scheduler.run(run)
        finally:
            world.active.close()
            world.active = current.ranks = backend.watch = None
            scheduler.running.clock.save()
            for device in machine.devices:
                device.call(device.index)
            machine.host = max(rank.clock.now for rank in ranks)
    return [rank.result for rank in ranks], [rank.clock.now for rank in ranks]


def _make_rank(machine, index, number, cluster):
    """Return one rank, and make its device ready."""
    device = machine.devices[index]
    device.call(cluster.local(number))  # as in a process of its own on its node
    device.row, host_row = OF_RANKS + number, -OF_RANKS - number
    machine.trace.name_row(device.row, f"rank {number} {device.name}")
    machine.trace.name_row(host_row, f"rank {number} host")
    device.urgent = Engine()
    device.generator = SeedAndOffset(state.seed)
    device.draw = device.generator.draw
    clock = HostClock(machine, host_row, index)
    node, local = str(cluster.node(number)), cluster.local(number)
    environment = {
        "RANK": str(number), "LOCAL_RANK": str(local), "GROUP_RANK": node, "NODE_RANK": node,
        "WORLD_SIZE": str(cluster.world_size), "LOCAL_WORLD_SIZE": str(cluster.gpus_per_node),
        "MASTER_ADDR": "localhost", "MASTER_PORT": "29500",
    }  # fmt: skip
    state_of_rank = RankLocalState(environment)
    return Rank(number, index, local, cluster.world_size, clock, state_of_rank)


def register_backend() -> None:
    """Make the simulated process group known to `torch.distributed`, once a process."""
    if NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, _make_group, extended_api=True, devices=[device_type()])


def _make_group(options, _):
    return SimProcessGroup(
        options.group_id, options.group_rank, options.group_size, options.global_ranks_in_group
    )

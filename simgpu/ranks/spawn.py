"""`spawn`: run a `torch.distributed` program on simulated GPUs, one per rank."""

import math

import torch.distributed as dist

from simgpu.backend import tensor as backend
from simgpu.backend.check_races import in_a_rank
from simgpu.backend.pytorch.autocast import of_wrappers
from simgpu.clock import current
from simgpu.clock.current import set_device, state
from simgpu.clock.trace import OF_RANKS
from simgpu.configure import build
from simgpu.naming import NAME, slot_type
from simgpu.network.cluster import build_cluster
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


def spawn(
    fn, args=(), nprocs=1, gpu=None, link=None, nodes=1, network=None, numerics=True,
    ranks=None, slow=None, slow_cards=None, routing=None,
) -> list:  # fmt: skip
    """Run ``fn(rank, *args)`` on `nprocs` ranks, each with its own simulated GPU.

    Like `torch.multiprocessing.spawn`, but within one process: `fn` is a `torch.distributed`
    program that runs as under ``torchrun``. The current device (of `torch.accelerator`) is that of
    the rank, ``sim:{LOCAL_RANK}``; ``RANK``, ``LOCAL_RANK``, ``WORLD_SIZE`` and the like are set in
    the environment, and ``init_process_group()`` finds the other ranks. Every rank starts from the
    caller's random state.

    Every rank has its own host clock, which starts at 0. Afterwards `now` returns the time at which
    the last rank ended, and `trace` what ran: ``rank 3 host`` launches work on ``rank 3 sim:3``,
    whose engine ``comm`` runs collectives and messages. The caller's process is otherwise
    unchanged; a machine that it has configured is `reset`, and keeps its tensors. Without one, the
    machine of the ranks stays in use, so that its memory can be queried.

    Communication takes as long as with NCCL on such a cluster; groups that communicate at the same
    time share its links.

    One rank runs at a time, until it has to wait for another, so a program gives the same values
    and times in every run. Mistakes that would hang or give wrong numbers on real GPUs raise an
    error: a collective that a rank skips, or calls in another order or with another dtype or size;
    a message that is never received, or that waits behind one which crosses it, because it is not
    in the same `batch_isend_irecv`; arguments that NCCL refuses or misreads, such as tensors with
    gaps; groups that ranks make, or collectives of two groups that they start, in different orders;
    a tensor that is read or changed before the ``wait()`` for its communication; pinned memory that
    is overwritten before a non-blocking copy has read it. `check_races`
    around the call also finds streams that do not wait for a collective, or for its inputs.

    As in processes, each rank has its own modules: it imports its own copy of them, and in the
    caller's modules what it assigns to globals and to attributes of classes is its own, and gone
    afterwards. So is what it puts into their lists and dictionaries, except for those of the
    caller's ``__main__`` and of closures, in which ranks may collect results. Ranks share what a
    process can load only once: Python's standard library, PyTorch, and packages with parts in C.

    A `TCPStore` or `FileStore` that the program makes joins ranks by its port or path. A time limit
    for `wait` on a store counts simulated seconds. Ranks may also wait for each other by
    an ``Event``, a ``Queue`` and the like of `threading`. They must not keep a ``Lock`` that others
    take while they wait: the rank that waits for it is the only one that runs.

    Parameters
    ----------
    fn : callable
        The program.
    args : tuple
        Further arguments of `fn`.
    nprocs : int
        Number of ranks; at most 128 without `ranks`.
    gpu, link
        As for `configure`. A link implies the board of its generation, with up to 8 GPUs
        (`simgpu.network.boards.board_of`).
    nodes : int
        Number of such boards; the first ``nprocs / nodes`` ranks are on the first.
    network : str or Network
        The network between several nodes: a name in `simgpu.network.networks.NETWORKS` or a spec.
    numerics : bool
        As for `configure`. If False, ``item()`` of tensors without values is NaN.
    ranks : list of int or "auto", optional
        Run only these ranks, starting with 0; each represents all ranks up to the next one (for
        example, one of thousands of identical ranks, or the first of each pipeline stage). Needs
        ``numerics=False``. As a check, the program runs a second time with the last rank of each
        range; if its device communicates differently, or its kernels or its memory differ by more
        than 1 % (as with shards of different size), an error is raised. If all ranks are listed,
        the program runs once. ``"auto"`` finds such ranks, by running the program several times:
        it halves ranges until the first and the last rank of each do the same.
    slow : dict of int to float, optional
        For a rank, how many times as long all kernels of its GPU take: a fault. Needs all ranks.
    slow_cards : dict of int to float, optional
        For a rank, how many times as long bytes take on the network card that it uses, which other
        ranks of its node may share. Needs all ranks, and several nodes.
    routing : str or list of float, optional
        As for `configure`; the same on each rank.

    Returns
    -------
    list
        The result of `fn` on each rank that ran.

    Raises
    ------
    RanksError
        If the ranks do not match or deadlock; the message names ranks, calls and lines.
    ValueError
        If the ranks, GPUs, links or faults are invalid.
    RuntimeError
        If called in a rank, or if PyTorch lacks private names that it needs.
    Exception
        The first exception that `fn` raises on any rank.

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
    for name, number in (("nprocs", nprocs), ("nodes", nodes)):
        if not isinstance(number, int) or number < 1:
            raise ValueError(f"sim.spawn({name}={number!r}): give a positive int")
    slow, slow_cards = _factors(slow, nprocs, ranks), _factors(slow_cards, nprocs, ranks)
    cluster = build_cluster(nprocs, gpu, link, nodes, network).with_slow_cards(slow_cards)

    def run(numbers, firsts, checks=True):
        return _run(fn, args, numbers, firsts, cluster, (numerics, routing), checks, slow)

    numbers = folding.check_ranks(ranks, nprocs, numerics)
    if ranks == "auto":
        numbers, differs = representatives.search(lambda *given: run(*given)[1], nprocs)
        results, _ = run(numbers, numbers, checks=False)
        if differs:
            raise representatives.RanksDifferError(differs)
        return results
    # Check the assumption that a rank does the same as all that it represents on the last of them.
    others = folding.last_represented(numbers, nprocs)
    if others == numbers:  # all ranks run
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

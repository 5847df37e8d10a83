"""`spawn`: run a `torch.distributed` program on simulated GPUs, one per rank."""

from simgpu.network.cluster import build_cluster
from simgpu.ranks.run_ranks import run_ranks


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
    for name, number in (("nprocs", nprocs), ("nodes", nodes)):
        if type(number) is not int or number < 1:
            raise ValueError(f"sim.spawn({name}={number!r}): give a positive int")
    cluster = build_cluster(nprocs, gpu, link, nodes, network)
    return run_ranks(
        fn, args, cluster, numerics=numerics, ranks=ranks, slow=slow, slow_cards=slow_cards,
        routing=routing,
    )  # fmt: skip

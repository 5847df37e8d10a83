"""The options that say which machine to simulate, for every command that simulates one."""

from dataclasses import replace

from simgpu.hardware import host as hosts
from simgpu.hardware.default import find_gpu_and_link
from simgpu.hardware.links import HOW
from simgpu.hardware.presets import GPUS, LINKS
from simgpu.network.boards import board_of
from simgpu.network.cluster import Cluster, cluster_from_specs
from simgpu.network.networks import NETWORKS
from simgpu.rates_and_sizes import memory_size


def add_machine(parser) -> None:
    """Add the options to a parser, or to a group of one."""
    add = parser.add_argument
    add("--gpu", help=f"{', '.join(GPUS)} or a .json file (default: a100)")
    add("--memory", metavar="40GB", help="memory of a GPU (default: that of the GPU)")
    add(
        "--link",
        help=f"{', '.join(LINKS)}; {HOW} (default: the usual one of the GPU)",
    )
    add(
        "--host", metavar=hosts.option(hosts.SLOW),
        help=f"what the host takes for each kernel of eager code; {hosts.HOW} (default: that of "
        "the GPU, for presets 5us; help('simgpu.hardware.host') says how to measure it)",
    )  # fmt: skip
    add(
        "--network", metavar="NETWORK",
        help=f"network between nodes: {', '.join(NETWORKS)}; or the rate of a card and the cards "
        "of a node, such as 25GB/s:8 or 200Gbit/s",
    )  # fmt: skip


def find_parts(gpu=None, link=None, memory=None, host=None) -> tuple:
    """Return the specs of a GPU, with another memory or host if they are given, and of a link.

    Raises
    ------
    ValueError
        If there is no such preset or file, `memory` is no size, or `host` no times.
    """
    gpu, link = find_gpu_and_link(gpu, link)
    if memory is not None:
        try:
            gpu = replace(gpu, memory=memory_size(memory))
        except ValueError as error:
            raise ValueError(f"--memory: {error}") from None
    if host is not None:
        try:
            gpu = hosts.with_host(gpu, hosts.parse(host))
        except ValueError as error:
            raise ValueError(f"--host: {error}") from None
    return gpu, link


def gpu_and_link(args) -> tuple:
    """Return the specs of the GPU and the link that were asked for."""
    return find_parts(args.gpu, args.link, args.memory, args.host)


def gpus_on_board(args) -> int:
    """Return the number of GPUs that a full board of the machine carries."""
    return board_of(gpu_and_link(args)[1]).gpus


def machine_cluster(args, gpus_per_node=None, nodes=1, network=None) -> Cluster:
    """Return the cluster of a number of GPUs and nodes.

    Parameters
    ----------
    args
        The options.
    gpus_per_node : int, optional
        By default a full board.
    nodes : int
    network : str, optional
        Between the nodes, if the options name none.

    Raises
    ------
    ValueError
        If the hardware is unknown, or a node cannot have that many GPUs.
    """
    gpu, link = gpu_and_link(args)
    if gpus_per_node is None:
        gpus_per_node = board_of(link).gpus
    between = network if args.network is None else args.network
    return cluster_from_specs(nodes * gpus_per_node, gpu, link, nodes, between)

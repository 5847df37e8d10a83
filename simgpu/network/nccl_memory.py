"""GPU memory that PyTorch's allocator does not count: CUDA's context and NCCL's buffers.

NCCL allocates buffers when a rank is first connected to another one: 10 MiB for what it receives on
a channel (the three protocols' buffers of ``src/init.cc``, rounded up as in
``src/transport/p2p.cc``) and 2 MiB for what it sends. They stay until the program ends. How many
channels and algorithms it connects depends on its version, so these are ranges between what the
source code needs at least and what has been measured.
"""

MIB = 2**20
# With modules loaded lazily: 287 MB (pytorch pull request 86509) to 616 MiB (LMCache issue 4019).
CONTEXT = 274 * MIB, 616 * MIB
CHANNEL = 12 * MIB
# A group with collectives: a ring of 24 channels, to what 4 A100s took, rings and trees connected
# (NVIDIA/nccl issue 964).
GROUP = 24 * CHANNEL, 688 * MIB
# Another rank of the node with which messages are exchanged: 16 to 32 channels; all-to-alls of
# 8 H100s connect 32 to each of 7 (NVIDIA/nccl issue 1685).
PARTNER = 16 * CHANNEL, 32 * CHANNEL


class Connections:
    """The groups and the partners with which a rank's GPU has communicated.

    Parameters
    ----------
    rank : int
    cluster : Cluster

    Attributes
    ----------
    groups : set
        Keys of groups of several members in which it took part in collectives.
    partners : set of int
        Other ranks of its node to which it sent messages, or with which it exchanged them in
        all-to-alls.
    """

    def __init__(self, rank, cluster):
        self._rank, self._cluster = rank, cluster
        self.groups, self.partners = set(), set()
        self._seen = set()

    def add(self, collective, group, members) -> None:
        """Record that the rank takes part in a collective or message.

        Parameters
        ----------
        collective : str
            One of `simgpu.network.bus_bandwidth.COLLECTIVES`.
        group : hashable
            The key of its group.
        members : sequence of int
            All ranks that take part.
        """
        if (collective, group) in self._seen:
            return
        if collective in ("send", "all_to_all"):
            node, rank = self._cluster.node, self._rank
            self.partners.update(m for m in members if m != rank and node(m) == node(rank))
        elif len(members) > 1:
            self.groups.add(group)
        if collective != "send":  # of messages, each has members of its own
            self._seen.add((collective, group))

    def num_bytes(self) -> tuple:
        """Return the least and the most bytes that they take, with CUDA's context.

        Examples
        --------
        >>> from simgpu.network.cluster import find_cluster
        >>> found = Connections(0, find_cluster("dgx-a100"))
        >>> found.add("all_reduce", "world", range(8))
        >>> [round(n / 2**30, 1) for n in found.num_bytes()]
        [0.5, 1.3]
        """
        counts = (1, CONTEXT), (len(self.groups), GROUP), (len(self.partners), PARTNER)
        return tuple(sum(count * each[i] for count, each in counts) for i in (0, 1))


def may_be_too_much(reserved, num_bytes, memory) -> bool:
    """Return whether a GPU may lack the room for this beside what is reserved.

    Parameters
    ----------
    reserved : float
        Bytes of the allocator's segments.
    num_bytes : tuple
        What `Connections.num_bytes` has returned.
    memory : int
        Bytes that the GPU has.
    """
    return reserved + num_bytes[1] > memory


def in_words(num_bytes) -> str:
    """Describe what `Connections.num_bytes` has returned.

    Examples
    --------
    >>> in_words((2**29, 2**30))
    "CUDA's context and NCCL's buffers, 0.5 to 1 GiB by published figures"
    """
    low, high = (f"{n / 2**30:.1f}".removesuffix(".0") for n in num_bytes)
    return f"CUDA's context and NCCL's buffers, {low} to {high} GiB by published figures"

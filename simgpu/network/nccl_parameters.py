"""NCCL's own parameters: latencies, protocol efficiencies, corrections.

From ``src/graph/tuning.cc`` of NVIDIA/nccl, June 2026 (ncclTunerConstantsDefaults). PyTorch 2.13
has the latencies and efficiencies, too: ``torch/_inductor/comm_analysis.py``. Times in seconds,
rates in bytes/s. NCCL uses them to choose an algorithm; what ``measured.py`` adds makes a
prediction of the time. Two parts of NCCL's model are left out: the caps per channel of rings and
trees, which do not limit the boards in ``boards.py``, and the flush of protocol Simple, one more
latency of the network in each step between nodes.
"""

import bisect
import math

PROTOCOLS = ("LL", "LL128", "Simple")

# Seconds before the first step.
BASE_LATENCY = {
    "tree": {"LL": 6.8e-6, "LL128": 14.0e-6, "Simple": 8.4e-6},
    "ring": {"LL": 6.6e-6, "LL128": 14.0e-6, "Simple": 8.4e-6},
}
# Seconds of one step over each kind of connection.
STEP_LATENCY = {
    "nvlink": {
        "tree": {"LL": 0.6e-6, "LL128": 1.25e-6, "Simple": 4.0e-6},
        "ring": {"LL": 0.6e-6, "LL128": 1.9e-6, "Simple": 3.4e-6},
    },
    "pci": {
        "tree": {"LL": 1.0e-6, "LL128": 1.9e-6, "Simple": 4.0e-6},
        "ring": {"LL": 1.0e-6, "LL128": 2.5e-6, "Simple": 5.7e-6},
    },
    "net": {
        "tree": {"LL": 5.0e-6, "LL128": 8.5e-6, "Simple": 14.0e-6},
        "ring": {"LL": 2.7e-6, "LL128": 4.0e-6, "Simple": 14.0e-6},
    },
}
IN_SWITCH_LATENCY = 25e-6  # NVLS, and the inside of NVLSTree
IN_SWITCH_NET_LATENCY = 20.9e-6  # each level of NVLSTree's tree over nodes
# The CPU posts each message to the network: the least step in a ring over nodes (getNetOverhead).
# Protocol Simple posts three.
POST_OVERHEAD = {"intel": 1e-6, "amd": 2e-6}
POSTS = {"LL": 1, "LL128": 1, "Simple": 3}
# Rings of protocol Simple over nodes: an all-reduce of 64 bytes a channel and member or more is
# expected to take this many times the latency, so that trees are chosen for longer ("plateau").
PLATEAU = {"volta": 1.9, "ampere": 1.4, "hopper": 1.4, "blackwell": 1.4}
PLATEAU_FROM = 64

# Share of the raw rate that is data: LL sends a flag with every 4 bytes, LL128 with every 120.
_EFFICIENCY = {
    "ring": {"LL": 0.5, "LL128": 0.92, "Simple": 1.0},
    "tree": {"LL": 0.92 / 3.8, "LL128": 0.92 * 7 / 9, "Simple": 0.92},
}
_TREE_LL128_OVER_NODES = 0.92 * 120 / 128

# Maximum rate of protocol LL: on one node by GPU generation; on two nodes and on more by the CPUs.
LL_RATE = {"volta": 39e9, "ampere": 87.7e9, "hopper": 141e9, "blackwell": 282e9}
LL_RATE_OVER_NODES = {"intel": (39e9, 20.4e9), "amd": (22.5e9, 19e9)}

# Rates of one channel that NCCL's search tries on one node (search.cc), and the highest rate of a
# channel of NVLSTree over two nodes and over more.
IN_SWITCH_SPEEDS = {
    "hopper": (3e9, 6e9, 11e9, 12e9, 15e9, 20e9, 24e9, 30e9, 40e9, 50e9, 60e9),
    "blackwell": (18e9, 19e9, 20e9, 24e9, 30e9, 40e9, 45e9, 50e9, 60e9, 70e9, 80e9, 90e9),
}
IN_SWITCH_TREE_RATE = {"hopper": (57.7e9, 45.5e9), "blackwell": (96e9, 80e9)}

# A message takes fewer channels if each of a channel's threads would have fewer bytes than this (LL
# in a ring: than this for each member; comm.h, enqueue.cc); threads of a channel (device.h).
THREAD_BYTES = {"LL": 8, "LL128": 8, "Simple": 64}
THREADS = {"LL": 512, "LL128": 640, "Simple": 512}
# Messages between two GPUs: the least and the most bytes that a channel takes while there are
# others (addP2pToPlan), and the bytes up to which a channel uses LL.
PAIR_LEAST, PAIR_MOST = 2**16, 2**24
PAIR_LL_BYTES = 2**14

# Trees are slower at medium sizes: factor on their rate at 64 B, 128 B, ..., 512 MiB.
TREE_CORRECTION = {
    "LL": (
        1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5,
        0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0,
    ),
    "LL128": (
        1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6,
        0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1.0, 1.0, 1.0,
    ),
    "Simple": (
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5,
        0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9,
    ),
}  # fmt: skip


def efficiency(algorithm, protocol, num_nodes):
    """Return the share of the raw rate at which data move in a ring or tree."""
    if (algorithm, protocol) == ("tree", "LL128") and num_nodes > 1:
        return _TREE_LL128_OVER_NODES
    return _EFFICIENCY[algorithm][protocol]


def ll_rate(generation, cpu, num_nodes):
    """Return the maximum rate of protocol LL, in bytes/s."""
    if num_nodes == 1:
        return LL_RATE[generation]
    return LL_RATE_OVER_NODES[cpu][num_nodes > 2]


def post_overhead(protocol, cpu):
    """Return the least time of a step in a ring over nodes, in seconds."""
    return POSTS[protocol] * POST_OVERHEAD[cpu]


def plateau(generation, channels, num_bytes, num_members):
    """Return the factor on the latency of a ring of protocol Simple that sums over nodes."""
    reached = num_bytes // (channels * num_members) >= PLATEAU_FROM
    return PLATEAU[generation] if reached else 1.0


def in_switch_rate(generation, rate, num_members):
    """Return size/time of NVLS on one node before its efficiency, as NCCL expects it, in bytes/s.

    Each of the members is the head of one channel. A channel takes its rate from every GPU, and
    once more from its head: all channels together at most `rate`.
    """
    speeds = IN_SWITCH_SPEEDS[generation]
    fits = bisect.bisect_right(speeds, rate / (num_members + 1))
    return num_members * speeds[max(fits, 1) - 1]


def _pair_least(most, num_ranks):
    """Return the channels of a message between two ranks, and those of the communicator.

    It has as many as a power of two, `most` or more, which are first spread over its ranks.
    """
    most = 1 << (most - 1).bit_length()
    return max(most >> (num_ranks - 1).bit_length(), 1), most


def pair_channels(most, num_bytes, num_ranks):
    """Return how many channels a message between two of a communicator's ranks takes.

    Each has at least `PAIR_LEAST` bytes. If it had more than `PAIR_MOST`, there are twice as many.
    """
    least, most = _pair_least(most, num_ranks)
    channels = max(min(least, math.ceil(num_bytes / PAIR_LEAST)), 1)
    while num_bytes > channels * PAIR_MOST and channels < most:
        channels *= 2
    return channels


def pair_part(most, num_bytes, num_ranks):
    """Return the most bytes of one channel for a message of up to `num_bytes`.

    When channels are doubled, their parts are halved; a part is counted as the largest so far, so
    that more bytes never take less time.
    """
    least, most = _pair_least(most, num_ranks)
    part = max(min(num_bytes, PAIR_LEAST), min(num_bytes / least, PAIR_MOST))
    return max(part, num_bytes / most)


def channels_of(protocol, most, num_bytes, num_members):
    """Return how many channels, of at most `most`, a ring or tree uses for a message."""
    bytes_each = THREADS[protocol] * THREAD_BYTES[protocol]
    bytes_each *= num_members if protocol == "LL" else 1
    return max(1, min(most, int(num_bytes // bytes_each)))


def tree_correction(protocol, num_bytes):
    """Return the factor on a tree's rate, linear in log2(size) between NCCL's entries.

    NCCL itself uses the entry of the next lower power of two, so its times jump at each of them.
    """
    table = TREE_CORRECTION[protocol]
    place = math.log2(max(num_bytes, 64) / 64)
    if place >= len(table):
        return 1.0
    low = int(place)
    left, right = table[low], (*table, 1.0)[low + 1]
    return left + (right - left) * (place - low)

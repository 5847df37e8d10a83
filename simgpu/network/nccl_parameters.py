"""NCCL's own parameters: latencies, protocol efficiencies, corrections.

From ``src/graph/tuning.cc`` of NVIDIA/nccl (ncclTunerConstantsDefaults); PyTorch 2.13 has the same
numbers in ``torch/_inductor/comm_analysis.py``. Times in seconds, rates in bytes/s. Two parts of
NCCL's model are left out: the caps per channel, which do not limit the boards in ``boards.py``, and
the plateau of rings over nodes, which newer versions dropped.
"""

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
NET_OVERHEAD = {"LL": 1e-6, "LL128": 1e-6, "Simple": 3e-6}  # least step in a ring over nodes

# Share of the raw rate that is data: LL sends a flag with every 4 bytes, LL128 with every 120.
_EFFICIENCY = {
    "ring": {"LL": 0.5, "LL128": 0.92, "Simple": 1.0},
    "tree": {"LL": 0.92 / 3.8, "LL128": 0.92 * 7 / 9, "Simple": 0.92},
}
_TREE_LL128_OVER_NODES = 0.92 * 120 / 128

# Maximum rate of protocol LL: on one node (by GPU generation), on two nodes, on more.
LL_RATE = {"volta": 39e9, "ampere": 87.7e9, "hopper": 141e9, "blackwell": 282e9}
LL_RATE_TWO_NODES, LL_RATE_MORE_NODES = 39e9, 20.4e9

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


def ll_rate(generation, num_nodes):
    """Return the maximum rate of protocol LL, in bytes/s."""
    if num_nodes == 1:
        return LL_RATE[generation]
    return LL_RATE_TWO_NODES if num_nodes == 2 else LL_RATE_MORE_NODES


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

"""What is measured beyond NCCL's own model: its limits, its order, and what it takes from GPUs."""

import itertools
import math

import pytest

from simgpu.network import measured
from simgpu.network import nccl_parameters as nccl
from simgpu.network.bus_bandwidth import COLLECTIVES
from simgpu.network.cluster import find_cluster
from simgpu.network.collective_costs import cost

MIB, GIB = 2**20, 2**30
A100, H100 = find_cluster("dgx-a100"), find_cluster("hgx-h100")
SIZES = [int(2 ** (p / 4)) for p in range(12, 140)]


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("nodes", [1, 4])
def test_nothing_is_faster_than_its_wire(collective, nodes):
    cluster = find_cluster("hgx-h100", nodes)
    members = range(2 if collective == "send" else cluster.world_size)
    for num_bytes in SIZES:
        found = cost(collective, num_bytes, members, cluster)
        assert found.seconds - found.latency >= num_bytes * found.plan.slowest
        assert max(found.busy().values()) <= found.seconds


def test_the_bus_bandwidth_of_one_algorithm_rises_with_the_size():
    rates = [cost("all_reduce", 2**p, range(8), A100, "ring").bus_bandwidth for p in range(10, 40)]
    assert rates == sorted(rates)


def test_filling_is_a_share_of_small_messages_and_a_constant_of_large_ones():
    """Small ones move at half of the rate, large ones as if each channel had `FILL` bytes more."""
    per_byte = 1e-11
    assert measured.filling(1000, per_byte, 24, 1) == pytest.approx(1000 * per_byte, rel=1e-3)
    limit = 24 * measured.FILL * per_byte
    assert measured.filling(2**45, per_byte, 24, 1) == pytest.approx(limit, rel=1e-3)
    assert measured.filling(2**45, per_byte, 24, 5) == pytest.approx(5 * limit, rel=1e-3)
    assert measured.filling(0, per_byte, 24, 1) == 0


def test_what_is_added_is_the_same_for_all_algorithms():
    """So the order in which NCCL has them stays."""
    cluster = find_cluster("hgx-h100", 4)
    for num_bytes in (0, MIB, 64 * MIB, 8 * GIB):
        added = []
        for algorithm in ("ring", "tree", "nvls_tree"):
            found = cost("all_reduce", num_bytes, range(32), cluster, algorithm)
            slowest = cost("all_reduce", num_bytes, range(32), cluster, "ring").plan.slowest
            nccl_s = found.seconds - measured.filling(num_bytes, slowest, 16, 2)
            added.append(found.seconds - nccl_s)
            assert nccl_s - measured.slower(num_bytes, slowest) > 0
        assert max(added) == pytest.approx(min(added))


def test_few_channels_fill_early():
    """Two of them, over PCIe or between nodes, hold two slices on their way, not 24."""
    pcie = find_cluster("rtx4090-workstation")
    for cluster, members in ((find_cluster("hgx-h100", 2), (0, 8)), (pcie, range(2))):
        found = cost("all_reduce", GIB, members, cluster, "ring")
        slices = measured.filling(GIB, found.plan.slowest, 2, 1)
        assert slices < found.latency < 1.2 * slices + 1e-4


def test_sums_over_more_nodes_need_longer_to_fill():
    def idle(nodes):
        found = cost(
            "all_reduce", 64 * MIB, range(8 * nodes), find_cluster("hgx-h100", nodes), "nvls_tree"
        )
        nothing = cost(
            "all_reduce", 0, range(8 * nodes), find_cluster("hgx-h100", nodes), "nvls_tree"
        )
        return found.latency - nothing.latency

    times = [idle(nodes) for nodes in (2, 4, 8, 16)]
    assert all(less < more for less, more in itertools.pairwise(times))
    # A level adds less than the first: small messages move at half speed, and not slower.
    assert times[3] < 3 * times[0]


def test_small_sums_keep_nccls_latency_and_other_kinds_have_their_own():
    assert cost("all_reduce", 0, range(8), A100).seconds == pytest.approx(6.6e-6 + 14 * 0.6e-6)
    assert cost("broadcast", 0, range(8), A100).seconds == pytest.approx(6.6e-6 + 7 * 0.6e-6)
    gather = cost("all_gather", 0, range(8), A100).seconds
    assert gather == pytest.approx(6.6e-6 + 7 * 0.6e-6 + 5.5e-6)
    assert cost("reduce_scatter", 0, range(8), A100).seconds == gather
    # Measured on B200s at 1 KiB: 16.4 us (all-gather), 11.1 (all-to-all), 9.5 (send).
    b200 = find_cluster("hgx-b200")
    for name, members, seconds in (
        ("all_gather", 8, 16.4e-6), ("all_to_all", 8, 11.1e-6), ("send", 2, 9.45e-6)
    ):  # fmt: skip
        found = cost(name, 1024, range(members), b200)
        assert found.seconds == pytest.approx(seconds, rel=0.03)


def test_messages_between_pairs_are_one_step_and_posted_one_by_one():
    """A GPU has all its messages at once: more nodes add a post each, not a step each."""
    times = [
        cost("all_to_all", 0, range(8 * n), find_cluster("hgx-h100", n)).seconds for n in (2, 3, 5)
    ]
    assert times[1] - times[0] == pytest.approx(8 * 1e-6)
    assert times[2] - times[1] == pytest.approx(16 * 1e-6)


@pytest.mark.parametrize(
    ("num_bytes", "ranks", "channels"),
    [
        (1, 8, 1), (2**16, 8, 1), (2**17, 8, 2), (2**18, 8, 4), (2**26, 8, 4), (2**26 + 1, 8, 8),
        (2**28, 8, 16), (2**29, 8, 32), (2**33, 8, 32), (2**20, 2, 16), (2**20, 64, 1),
    ],
)  # fmt: skip
def test_channels_of_a_message_are_spread_over_the_ranks_first(num_bytes, ranks, channels):
    assert nccl.pair_channels(24, num_bytes, ranks) == channels


def test_a_pair_of_its_own_communicator_has_more_channels():
    shared, own = (cost("send", 64 * MIB, (0, 1), A100, ranks=n) for n in (8, 2))
    assert (shared.channels, own.channels) == (4, 16)
    assert shared.seconds > 2 * own.seconds
    # Measured by sendrecv_perf over 8 ranks: 1.21 ms for 128 MiB on A100s.
    found = cost("send", 128 * MIB, (0, 1), A100, ranks=8)
    assert found.seconds == pytest.approx(1.21e-3, rel=0.1)


def test_small_messages_take_fewer_multiprocessors():
    found = [cost("all_reduce", 2**p, range(8), A100) for p in range(8, 32)]
    assert found[0].channels == 1
    assert found[-1].channels == 24
    for one in found:
        threads, least = nccl.THREADS[one.protocol], nccl.THREAD_BYTES[one.protocol]
        least *= 8 if one.protocol == "LL" else 1
        # As many as have work for all of their threads.
        assert one.channels == max(1, min(24, one.num_bytes // (threads * least)))
    assert cost("all_reduce", 2**12, range(8), H100, "nvls").channels == 16
    assert cost("send", 4096, (0, 1), A100).sm_share(A100.gpu) == pytest.approx(1 / 108)


def test_cpus_of_amd_post_more_slowly():
    def latency(name, nodes, algorithm, num_bytes):
        cluster = find_cluster(name, nodes)
        return cost("all_reduce", num_bytes, range(8 * nodes), cluster, algorithm).latency

    assert (A100.cpu, H100.cpu) == ("amd", "intel")
    assert find_cluster("cloud-h200", 2).cpu == "amd"  # Amazon's P5
    # NCCL's formula for a ring over 8 nodes of 8: 112 steps inside, 14 between nodes.
    assert latency("dgx-a100", 8, "ring", 0) == pytest.approx(6.6e-6 + 112 * 2e-6 + 14 * 3.7e-6)
    assert latency("hgx-h100", 8, "ring", 0) == pytest.approx(6.6e-6 + 112 * 1e-6 + 14 * 3.7e-6)


def test_the_plateau_multiplies_the_latency_of_large_rings_over_nodes():
    assert nccl.plateau("ampere", 24, 64 * 24 * 16, 16) == 1.4
    assert nccl.plateau("ampere", 24, 64 * 24 * 16 - 1, 16) == 1
    assert nccl.plateau("volta", 12, GIB, 16) == 1.9
    cluster = find_cluster("dgx-a100", 8)
    found = cost("all_reduce", GIB, range(64), cluster, "ring")
    assert found.protocol == "Simple"
    steps = 8.4e-6 + 112 * 6e-6 + 14 * 15e-6
    filling = measured.filling(GIB, found.plan.slowest, 24, 3)
    assert found.latency == pytest.approx(1.4 * steps + filling)


def test_efa_uses_no_ll128_between_nodes():
    cluster = find_cluster("cloud-h200", 2)
    for members in (8, 16):
        used = {cost("all_gather", size, range(members), cluster).protocol for size in SIZES}
        assert ("LL128" in used) == (members == 8)


def test_one_gpu_of_each_node_sees_the_latency_of_a_tree():
    """NCCL: with one member on each node nothing hides the network's latency."""
    cluster = find_cluster("hgx-h100", 2)
    found = cost("all_reduce", 0, (0, 8), cluster, "ring")
    assert found.latency == pytest.approx(6.6e-6 + 2 * (5e-6 + 1e-6))


def test_in_switch_rates_by_hand():
    """Eight H100s share 370.8 GB/s: 9 x 40 fit, 9 x 50 do not; five get all that NCCL tries."""
    rate = 18 * 20.6e9
    assert nccl.in_switch_rate("hopper", rate, 8) == 8 * 40e9
    assert nccl.in_switch_rate("hopper", rate, 5) == 5 * 60e9
    assert nccl.in_switch_rate("blackwell", 18 * 40.1e9, 8) == 8 * 80e9
    assert math.isclose(nccl.in_switch_rate("hopper", 1e9, 8), 8 * 3e9)

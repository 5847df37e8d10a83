"""What collectives cost: closed formulas, limits, and the order of the algorithms."""

import dataclasses
import itertools

import pytest
from torch._inductor import comm_analysis

from simgpu.network import measured, networks
from simgpu.network.bus_bandwidth import COLLECTIVES, bus_factor, seconds_at
from simgpu.network.cluster import build_cluster, find_cluster
from simgpu.network.collective_costs import cost, forget
from simgpu.network.nccl_choices import ALGORITHMS
from simgpu.network.nccl_parameters import TREE_CORRECTION, tree_correction

GB, MIB, GIB = 1e9, 2**20, 2**30
A100 = find_cluster("dgx-a100")
H200 = find_cluster("hgx-h200")
CLUSTERS = [
    find_cluster("dgx1-v100"),
    A100,
    H200,
    find_cluster("rtx4090-workstation", gpus_per_node=4),
    find_cluster("dgx-a100", 2),
    find_cluster("hgx-h100", 4),
    find_cluster("cloud-v100", 3),
]


@pytest.fixture
def nccl_alone(monkeypatch):
    """Take away what is measured beyond NCCL's own model."""
    for name, value in (("WIRE", 1.0), ("FILL", 0.0), ("START", {})):
        monkeypatch.setattr(measured, name, value)
    forget()
    yield
    forget()


def test_a_changed_constant_counts_once_costs_are_forgotten(monkeypatch):
    cluster = find_cluster("dgx-a100", 2)

    def seconds():
        forget()
        return cost("all_reduce", GIB, range(16), cluster).seconds

    before = seconds()
    with monkeypatch.context() as changed:
        changed.setattr(networks, "NETWORK_EFFICIENCY", networks.NETWORK_EFFICIENCY / 4)
        assert seconds() > 1.5 * before
    assert seconds() == before


def members_of(collective, cluster):
    return range(2 if collective == "send" else cluster.world_size)


def by_name(cluster):
    return cluster.name


def test_a_large_ring_on_a_switch_by_hand(nccl_alone):
    """14 steps of 3.4 us after 8.4 us, and 14 chunks of an eighth at 12 x 20 GB/s."""
    found = cost("all_reduce", GIB, range(8), A100)
    assert (found.algorithm, found.protocol) == ("ring", "Simple")
    assert found.seconds == pytest.approx(8.4e-6 + 14 * 3.4e-6 + 14 * (GIB / 8) / 240e9)
    gather = cost("all_gather", GIB, range(8), A100)
    assert gather.seconds == pytest.approx(8.4e-6 + 7 * 3.4e-6 + 7 * (GIB / 8) / 240e9)


def test_a_ring_over_nodes_by_hand(nccl_alone):
    """Four cards carry what one NVLink carries inside; only one of 8 steps crosses at a time."""
    cluster = find_cluster("dgx1-v100", 2)
    found = cost("all_reduce", GIB, range(16), cluster, "ring")
    wire = 2 * 15 / 16 * GIB / (4 * 12.5e9 * 0.96)
    assert found.protocol == "Simple"
    steps = 28 * 3.4e-6 + 2 * (14e-6 + 1e-6)
    assert found.seconds == pytest.approx(1.9 * (8.4e-6 + steps) + wire)  # NCCL's plateau


@pytest.mark.parametrize(("nodes", "enters"), [(2, 1), (4, 2), (16, 2)])
def test_a_tree_over_nodes_by_hand(nccl_alone, nodes, enters):
    """Two trees with half of the data each: two nodes exchange it once, a node of more twice."""
    cluster = find_cluster("dgx1-v100", nodes)
    found = cost("all_reduce", 2**36, range(8 * nodes), cluster, "tree")
    assert found.protocol == "Simple"
    wire = 2**36 * max(enters / (4 * 12.5e9 * 0.96), 2 / 120e9) / 0.92
    levels = nodes.bit_length() - 1
    steps = 2 * (7 * 4e-6 + levels * (14e-6 + 1e-6))
    assert found.seconds == pytest.approx(8.4e-6 + steps + wire)


def test_a_tree_of_medium_size_by_hand(nccl_alone):
    """At 1 MiB NCCL's table halves the tree's rate, or nearly so."""
    wire = 2 * MIB / 240e9 / 0.92
    ll = 6.8e-6 + 14 * 0.6e-6 + max(wire * 3.8, 2 * MIB / 87.7e9) / 0.5
    ll128 = 14e-6 + 14 * 1.25e-6 + wire * 9 / 7 / 0.6
    simple = 8.4e-6 + 14 * 4e-6 + wire / 0.5
    found = cost("all_reduce", MIB, range(8), A100, "tree")
    assert found.seconds == pytest.approx(min(ll, ll128, simple))
    assert found.protocol == "LL128"


def test_what_ll_moves_is_limited_by_hand(nccl_alone):
    """Half of 240 GB/s is more than NCCL gets with LL: 87.7 on an A100, 22.5 and 19 over nodes."""
    found = cost("all_reduce", 2**18, range(2), A100, "ring")
    assert found.protocol == "LL"
    assert found.seconds == pytest.approx(6.6e-6 + 2 * 0.6e-6 + 2**18 / 87.7e9)
    intel = find_cluster("hgx-h100", 2)
    found = cost("all_reduce", 2**16, range(16), intel, "ring")
    assert found.seconds - found.latency == pytest.approx(2 * 15 / 16 * 2**16 / 39e9)
    for nodes, rate in ((2, 22.5e9), (4, 19e9)):
        n = 8 * nodes
        found = cost("all_reduce", 2**16, range(n), find_cluster("dgx-a100", nodes), "ring")
        assert found.protocol == "LL"
        # A step inside takes at least 2 us beside AMD's CPUs, one over nodes 2.7 us and a switch.
        steps = 2 * (n - nodes) * 2e-6 + 2 * (nodes - 1) * (2.7e-6 + 1e-6)
        wire = 2 * (n - 1) / n * 2**16 / rate
        assert found.seconds == pytest.approx(6.6e-6 + steps + wire)


def ring_by_events(num_bytes, n, latency, rate):
    """Play a ring of `n` GPUs: a chunk goes on when it is there and the way out is free."""
    chunk = num_bytes / n
    arrived = [0.0] * n  # of the chunk that GPU i passes on next
    free = [0.0] * n  # way out of GPU i
    for _ in range(2 * (n - 1)):
        sent = []
        for i in range(n):
            start = max(arrived[i], free[i])
            free[i] = start + chunk / rate
            sent.append(free[i] + latency)
        arrived = [sent[(i - 1) % n] for i in range(n)]
    return max(arrived)


def test_a_ring_of_four_equals_its_events(nccl_alone):
    for num_bytes in (4 * MIB, 64 * MIB, GIB):
        found = cost("all_reduce", num_bytes, range(4), A100, "ring")
        latency = {"LL128": 1.9e-6, "Simple": 3.4e-6}[found.protocol]
        base = {"LL128": 14e-6, "Simple": 8.4e-6}[found.protocol]
        rate = {"LL128": 0.92, "Simple": 1.0}[found.protocol] * 240e9
        events = base + ring_by_events(num_bytes, 4, latency, rate)
        assert found.seconds == pytest.approx(events)


@pytest.mark.parametrize("cluster", CLUSTERS, ids=by_name)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_nothing_costs_the_latency_and_more_costs_more(collective, cluster):
    members = members_of(collective, cluster)
    sizes = [0, 1, *(int(2 ** (p / 4)) for p in range(12, 140))]
    costs = [cost(collective, size, members, cluster) for size in sizes]
    assert costs[0].seconds == costs[0].latency > 0
    assert costs[0].bus_bandwidth == 0
    for less, more in itertools.pairwise(costs):
        assert less.seconds <= more.seconds
    assert costs[-1].seconds > 100 * costs[0].seconds


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter", "broadcast"])
def test_bus_bandwidth_tends_to_the_wire(collective):
    found = cost(collective, 2**45, range(8), A100, "ring")
    reached = measured.WIRE * 240 * GB
    assert found.bus_bandwidth == pytest.approx(reached, rel=1e-6)
    assert found.algorithm_bandwidth == pytest.approx(reached / bus_factor(collective, 8), rel=1e-6)


def test_bus_factors_are_those_of_nccl_tests():
    assert [bus_factor("all_reduce", n) for n in (2, 4, 8)] == [1, 1.5, 1.75]
    for collective in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"):
        assert bus_factor(collective, 4) == 0.75
    for collective in ("broadcast", "reduce", "send"):
        assert bus_factor(collective, 4) == 1
    found = cost("all_gather", GIB, range(8), A100)
    assert seconds_at("all_gather", GIB, 8, found.bus_bandwidth) == pytest.approx(found.seconds)


def test_the_wire_of_small_messages_is_ll_and_of_large_ones_simple():
    protocols = [cost("all_reduce", 2**p, range(8), A100, "ring").protocol for p in range(10, 32)]
    assert protocols == sorted(protocols, key=["LL", "LL128", "Simple"].index)
    assert set(protocols) == {"LL", "LL128", "Simple"}


def test_trees_win_small_and_rings_large():
    cluster = find_cluster("dgx-a100", 16)
    members = range(128)
    faster = [
        cost("all_reduce", 2**p, members, cluster, "tree").seconds
        < cost("all_reduce", 2**p, members, cluster, "ring").seconds
        for p in range(8, 34)
    ]
    assert faster == sorted(faster, reverse=True)
    assert True in faster
    assert False in faster
    chosen = [cost("all_reduce", 2**p, members, cluster).algorithm for p in range(8, 34)]
    assert chosen == ["tree" if f else "ring" for f in faster]


def test_the_choice_is_the_fastest():
    for cluster in CLUSTERS:
        members = range(cluster.world_size)
        for num_bytes in (1024, MIB, GIB):
            chosen = cost("all_reduce", num_bytes, members, cluster)
            for algorithm in ("ring", "tree"):
                asked = cost("all_reduce", num_bytes, members, cluster, algorithm)
                assert asked.algorithm == algorithm
                assert chosen.seconds <= asked.seconds


def test_trees_take_few_steps_over_many_nodes():
    def latency(nodes, algorithm):
        cluster = find_cluster("dgx-a100", nodes)
        return cost("all_reduce", 0, range(8 * nodes), cluster, algorithm).seconds

    assert latency(64, "ring") / latency(32, "ring") == pytest.approx(2, rel=0.05)
    assert latency(64, "tree") - latency(32, "tree") == pytest.approx(
        latency(32, "tree") - latency(16, "tree")
    )


def test_the_tree_correction_meets_nccls_table():
    for protocol, table in TREE_CORRECTION.items():
        assert [tree_correction(protocol, 64 << i) for i in range(24)] == list(table)
        assert tree_correction(protocol, 0) == table[0]
        assert tree_correction(protocol, 2**40) == 1


@pytest.mark.parametrize(("name", "least"), [("hgx-h100", 5), ("hgx-h200", 5), ("hgx-b200", 7)])
def test_the_switch_sums_from_as_many_gpus_on_as_nccls_cost_says(name, least):
    """NVIDIA/nccl issue 1455: rings with 2 to 4 H100s; B200s have more channels to share out."""
    cluster = find_cluster(name)
    for n in range(2, 9):
        found = cost("all_reduce", 8 * GIB, range(n), cluster)
        assert found.algorithm == ("nvls" if n >= least else "ring")
        if found.algorithm == "nvls":
            ring = cost("all_reduce", 8 * GIB, range(n), cluster, "ring")
            assert found.seconds < ring.seconds
            assert found.bus_bandwidth > ring.bus_bandwidth


def test_what_a_switch_that_sums_moves_by_hand(nccl_alone):
    """A GPU sends its data and an n-th of the sums: the gain grows with n."""
    eight = cost("all_reduce", 2**45, range(8), H200).algorithm_bandwidth
    assert eight == pytest.approx(0.85 * 18 * 20.6 * GB / (1 + 1 / 8), rel=1e-6)


def test_a_tree_of_switches_is_limited_by_nccls_channels(nccl_alone):
    """On two nodes of H100s 8 channels of 57.7 GB/s, less than their cards or switches move."""
    found = cost("all_reduce", 2**40, range(16), find_cluster("hgx-h100", 2), "nvls_tree")
    assert found.bus_bandwidth == pytest.approx(8 * 57.7 * GB, rel=1e-3)


def test_a_switch_that_cannot_sum_does_not():
    assert cost("all_reduce", GIB, range(8), A100).algorithm == "ring"
    with pytest.raises(ValueError, match=r"a100 board.*use 'ring'"):
        cost("all_reduce", GIB, range(8), A100, "nvls")


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize("name", ["dgx1-v100", "dgx-a100", "hgx-h100", "cloud-v100"])
def test_hierarchical_is_never_slower_than_one_flat_ring(name, collective):
    for nodes, used in ((2, 8), (4, 8), (16, 4)):
        cluster = find_cluster(name, nodes)
        members = [8 * node + i for node in range(nodes) for i in range(used)]
        for num_bytes in (0, 4096, MIB, GIB):
            flat = cost(collective, num_bytes, members, cluster, "ring")
            nested = cost(collective, num_bytes, members, cluster, "hierarchical")
            assert nested.seconds <= flat.seconds * (1 + 1e-12)


def test_hierarchical_sends_an_eighth_through_each_card():
    cluster = find_cluster("dgx-a100", 4)
    plan = cost("all_reduce", GIB, range(32), cluster, "hierarchical").plan
    assert plan.edges["nic", 2, 5, "in"] == pytest.approx(2 * 3 / 4 / 8 / 24e9)
    assert plan.edges["gpu", 9, "out"] == pytest.approx(2 * 7 / 8 / 240e9)


def test_a_shared_card_halves_the_rate():
    pair, other = (0, 8), (1, 9)
    cloud, dgx = find_cluster("cloud-v100", 2), find_cluster("dgx-a100", 2)
    alone = cost("all_reduce", GIB, pair, cloud, "ring")
    both = cost("all_reduce", GIB, pair, cloud, "ring", alongside=[other])
    assert both.seconds - both.latency == pytest.approx(2 * (alone.seconds - alone.latency))
    alone = cost("all_reduce", GIB, pair, dgx, "ring")
    assert cost("all_reduce", GIB, pair, dgx, "ring", alongside=[other]) == alone


def test_every_group_on_an_edge_counts():
    cloud = find_cluster("cloud-v100", 2)
    group, *others = ((i, 8 + i) for i in range(4))  # all through the card of their node
    alone = cost("all_reduce", GIB, group, cloud, "ring")
    shared = cost("all_reduce", GIB, group, cloud, "ring", alongside=others)
    assert shared.seconds - shared.latency == pytest.approx(4 * (alone.seconds - alone.latency))


def test_a_small_message_leaves_room_on_the_link_for_another():
    small = cost("send", 256 * 2**10, (0, 1), A100)
    large = cost("send", GIB, (0, 1), A100)
    assert small.wire_share < 0.9 < 0.99 < large.wire_share <= 1
    busy, moving = max(small.busy().values()), small.seconds - small.latency
    assert busy == pytest.approx(small.wire_share * moving)


def test_channels_of_an_all_to_all_are_those_of_its_pairs():
    for num_bytes in (64 * 2**10, MIB):
        pair = cost("send", num_bytes, (0, 1), A100, ranks=8).channels
        found = cost("all_to_all", 3 * num_bytes, range(3), A100, ranks=8).channels
        assert found == 2 * pair < A100.board.channels


def test_groups_inside_nodes_do_not_disturb_each_other():
    cluster = find_cluster("cloud-v100", 2)
    alone = cost("all_reduce", GIB, range(8), cluster)
    assert cost("all_reduce", GIB, range(8), cluster, alongside=[range(8, 16)]) == alone


def test_edges_are_busy_as_long_as_the_wire_is():
    found = cost("all_reduce", GIB, range(16), find_cluster("dgx1-v100", 2))
    busy = found.busy()
    assert max(busy.values()) == pytest.approx(found.seconds - found.latency)
    assert busy.keys() == found.plan.edges.keys()
    assert cost("all_reduce", GIB, [3], A100).busy() == {}


def test_the_slower_network_is_slower():
    names = ("ethernet100", "ethernet200", "ethernet400", "hdr", "ndr")
    times = [
        cost("all_reduce", GIB, range(16), build_cluster(16, "h100", "nvlink4", 2, name)).seconds
        for name in names
    ]
    assert times == sorted(times, reverse=True)
    assert times[0] > 3 * times[2]


def test_order_of_the_members_does_not_matter_to_sums():
    cluster = find_cluster("dgx1-v100", 2)
    members = [0, 9, 3, 12, 1, 8]
    times = {
        cost("all_reduce", MIB, order, cluster).seconds
        for order in itertools.islice(itertools.permutations(members), 0, 720, 97)
    }
    assert max(times) == pytest.approx(min(times))


def test_gathering_waits_for_the_roots_wire():
    found = cost("gather", 8 * GIB, range(8), A100)
    assert found.plan.slowest == pytest.approx(7 / 8 / 240e9)
    assert found.plan.edges["gpu", 1, "out"] == pytest.approx(1 / 8 / 240e9)
    scatter = cost("scatter", 8 * GIB, range(8), A100)
    assert scatter.seconds == found.seconds


def test_one_member_has_nothing_to_do():
    found = cost("all_reduce", GIB, [5], A100)
    assert (found.seconds, found.algorithm, found.bus_bandwidth) == (0, "none", 0)


def test_what_it_takes_from_the_gpu():
    found = cost("all_reduce", GIB, range(8), A100)
    assert found.sm_share(A100.gpu) == pytest.approx(24 / 108)
    # Twice the wire's 2 x 7/8 GiB, and the own part of each sum.
    assert found.memory_bytes == pytest.approx((2 * 2 * 7 / 8 + 7 / 8) * GIB)
    # Seven of eight add what they have to what arrives; else a reduce is a broadcast backwards.
    reduce, broadcast = (cost(name, GIB, range(8), A100) for name in ("reduce", "broadcast"))
    assert reduce.memory_bytes - broadcast.memory_bytes == pytest.approx(7 / 8 * GIB)
    assert 0.2 < found.memory_share(A100.gpu) < 0.5
    across = cost("all_reduce", GIB, (0, 8), find_cluster("dgx-a100", 2))
    assert across.sm_share(A100.gpu) < 0.05
    unknown = dataclasses.replace(A100.gpu, multiprocessors=None)
    assert found.sm_share(unknown) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("all_reduce_all", 1, range(2)), "all_reduce_all.*reduce_scatter"),
        (("all_reduce", -1, range(2)), "num_bytes is -1; give zero"),
        (("all_reduce", 1, ()), "no members"),
        (("all_reduce", 1, (0, 8)), "8 is not a rank of .*0 to 7"),
        (("all_reduce", 1, (0, 1.5)), "1.5 is not a rank"),
        (("all_reduce", 1, (0, 1, 0)), "twice"),
        (("send", 1, (0, 1, 2)), "3 members; give the sender and the receiver"),
        (("all_reduce", 1, (0, 1), "bucket"), "'bucket'.*nvls_tree"),
        (("all_to_all", 1, (0, 1), "ring"), "all_to_all cannot.*use 'direct'"),
        (("all_reduce", 1, (0, 1), "direct"), "use 'ring'"),
        (("all_gather", 1, (0, 1), "tree"), "use 'ring'"),
        (("all_reduce", 1, (0, 1), "hierarchical"), "one node; use 'ring'"),
        (("broadcast", 1, (0, 1), "hierarchical"), "use 'ring'"),
    ],
)
def test_mistakes_are_named_with_a_remedy(arguments, words):
    collective, num_bytes, members, *algorithm = arguments
    with pytest.raises(ValueError, match=words):
        cost(collective, num_bytes, members, A100, *algorithm)


def test_algorithms_that_do_not_fit_the_nodes():
    cluster = find_cluster("hgx-h100", 2)
    for algorithm, members, words in (
        ("nvls", range(16), "use 'nvls_tree'"),
        ("nvls_tree", range(8), "use 'nvls'"),
        ("hierarchical", range(9), "different numbers"),
    ):
        with pytest.raises(ValueError, match=words):
            cost("all_reduce", 1, members, cluster, algorithm)
    assert set(ALGORITHMS) >= {"nvls", "nvls_tree", "hierarchical"}


@pytest.fixture
def second_opinion(monkeypatch):
    """Return PyTorch's model of NCCL, in seconds."""

    def estimate(generation, gpus_per_node, collective, num_bytes, n):
        kind = getattr(comm_analysis.NVIDIA_GPU_TYPE, generation.upper())
        monkeypatch.setattr(comm_analysis, "get_gpu_type", lambda: kind)
        monkeypatch.setattr(comm_analysis, "_has_nvlink", lambda: True)
        monkeypatch.setattr("torch.cuda.is_available", lambda: True)
        monkeypatch.setattr("torch.cuda.device_count", lambda: gpus_per_node)
        coll = getattr(comm_analysis.NCCL_COLL, collective.upper())
        return comm_analysis.estimate_nccl_collective_runtime_impl(num_bytes, n, coll) * 1e-3

    return estimate


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize("name", ["dgx-a100", "hgx-h100"])
@pytest.mark.parametrize("n", [2, 4, 8])
def test_pytorchs_model_of_nccl_agrees_on_one_node(nccl_alone, second_opinion, name, n, collective):
    """Within a fifth: it caps LL128 on an A100 at 8 channels, and knows no sums in the switch."""
    cluster = find_cluster(name)
    algorithms = ("ring", "tree") if collective == "all_reduce" else ("ring",)
    for power in range(8, 35):
        theirs = second_opinion(cluster.board.generation, 8, collective, 2**power, n)
        found = (cost(collective, 2**power, range(n), cluster, a) for a in algorithms)
        ours = min(one.seconds for one in found)
        assert ours == pytest.approx(theirs, rel=0.2), power
    assert ours == pytest.approx(theirs, rel=0.01)  # 16 GiB


@pytest.mark.parametrize("nodes", [2, 8])
def test_pytorchs_model_of_nccl_agrees_within_two_over_nodes(nccl_alone, second_opinion, nodes):
    """Its rates over nodes are fitted to another network; one GPU a node, one card each."""
    cluster = find_cluster("hgx-h100", nodes)
    for power in range(10, 31, 4):
        theirs = second_opinion("hopper", 1, "all_reduce", 2**power, nodes)
        ours = cost("all_reduce", 2**power, range(0, 8 * nodes, 8), cluster).seconds
        assert 0.5 < ours / theirs < 2, power

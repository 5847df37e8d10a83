"""Clusters: boards, networks, and which wires the members of a group use and share."""

import dataclasses
import itertools
import math

import pytest

from simgpu.hardware import LINKS, find_link
from simgpu.network.boards import Board, board_of
from simgpu.network.cluster import SYSTEMS, Cluster, build_cluster, find_cluster
from simgpu.network.networks import NETWORK_EFFICIENCY, NETWORKS, Network, find_network
from simgpu.network.traffic import plan

CUBE = board_of(find_link("nvlink2"))


def test_a_link_stands_for_the_board_of_its_generation():
    boards = {name: board_of(link) for name, link in LINKS.items()}
    assert {n: b.kind for n, b in boards.items() if n.startswith("nvlink")} == {
        "nvlink2": "mesh", "nvlink3": "switch", "nvlink4": "switch", "nvlink5": "switch",
        "nvlink4_400": "switch", "nvlink4_c2c": "switch",
    }  # fmt: skip
    on_pcie = {n: b.kind for n, b in boards.items() if n.startswith("pcie")}
    assert all(kind == ("mesh" if "bridge" in n else "host") for n, kind in on_pcie.items())
    assert {n for n, b in boards.items() if b.in_switch} == {"nvlink4", "nvlink4_400", "nvlink5"}


def test_settings_of_a_link_keep_its_board():
    board = board_of(find_link("nvlink3:x8:2xgenoa"))
    assert (board.name, board.kind) == ("a100 board", "switch")
    assert board.pcie_rate == board_of(LINKS["nvlink3"]).pcie_rate / 2


@pytest.mark.parametrize(
    ("name", "rate"), [("pcie4_bridge112", 48e9), ("pcie5_bridge600", 247.2e9)]
)
def test_a_bridge_joins_a_pair_and_others_go_through_the_host(name, rate):
    board = board_of(LINKS[name])
    assert board.ring_rate((2, 3)) == pytest.approx(rate)
    assert board.ring_rate((1, 2)) == board.ring_rate((0, 1, 2, 3)) == 0
    edges = plan("all_reduce", "ring", (0, 1, 2, 3), build_cluster(4, "a100", name)).edges
    assert ("host", 0) in edges


@pytest.mark.parametrize("link", LINKS.values(), ids=lambda link: link.name)
def test_kernels_get_no_more_from_a_board_than_the_data_sheet_says(link):
    """The links' presets hold 0.8 of their peaks."""
    board = board_of(link)
    peak = (link.peer_bandwidth if link.peer else link.bandwidth) / 0.8
    assert board.ring_rate(tuple(range(8))) <= peak
    assert board.pcie_rate == link.bandwidth


@pytest.mark.parametrize("link", LINKS.values(), ids=lambda link: link.name)
def test_every_number_of_a_board_has_a_source(link):
    board = board_of(link)
    needed = {"rate", "channels", "host_rate", "pcie_rate"}
    needed |= {name for name in ("in_switch", "pairs") if getattr(board, name)}
    assert needed <= set(board.sources)


def test_each_gpu_of_the_cube_mesh_has_six_wires():
    wires = [sum(count for a, b, count in CUBE.pairs if gpu in (a, b)) for gpu in range(8)]
    assert wires == [6] * 8


@pytest.mark.parametrize(
    ("gpus", "rings"),
    [
        (range(8), 6),  # three rings, each in both directions: all 24 wires
        ((0, 3), 2),
        ((0, 1), 1),
        ((0, 5), 0),  # not joined
        ((0, 1, 2), 2),
        ((0, 1, 2, 3), 4),  # 9 wires: two rings of 4, and one wire that is left over
        ((0, 1, 4, 6), 0),  # 1 and 6 have one neighbour each
    ],
)
def test_rings_in_the_cube_mesh(gpus, rings):
    assert CUBE.ring_rate(tuple(gpus)) == rings * CUBE.rate


def test_rings_never_need_more_wires_than_there_are():
    for count in range(3, 9):
        for gpus in itertools.combinations(range(8), count):
            inside = sum(wires for a, b, wires in CUBE.pairs if {a, b} <= set(gpus))
            assert CUBE.ring_rate(gpus) / CUBE.rate * count / 2 <= inside


def test_ranks_fill_one_node_after_the_other_and_have_a_card():
    cluster = build_cluster(16, "v100", "nvlink2", 2, "edr")  # 4 cards for 8 GPUs
    assert cluster.world_size == 16
    assert [cluster.node(r) for r in (0, 7, 8, 15)] == [0, 0, 1, 1]
    assert [cluster.nic(r) for r in range(8, 16)] == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("name", SYSTEMS)
def test_systems_by_name(name):
    cluster = find_cluster(name, nodes=2)
    assert cluster.world_size == 16
    assert find_cluster(cluster) is cluster
    assert find_cluster(name, nodes=2) == cluster
    assert cluster != find_cluster(name, nodes=3)


def test_networks_by_name():
    for name, network in NETWORKS.items():
        assert find_network(name) is network
        assert network.source
        assert network.nic_rate == NETWORK_EFFICIENCY * network.rate
        assert find_network(network) is network
    assert NETWORKS["ndr"].nics * NETWORKS["ndr"].rate == 8 * 400e9 / 8


def test_gpus_of_a_switch_have_no_edge_in_common():
    cluster = find_cluster("dgx-a100")
    pairs = [plan("send", "direct", pair, cluster) for pair in ((0, 1), (2, 3), (1, 0))]
    for one, other in itertools.combinations(pairs, 2):
        assert not one.edges.keys() & other.edges.keys()


def test_gpus_on_one_host_share_it():
    cluster = build_cluster(4, "rtx4090", "pcie4_staged")
    pairs = [plan("send", "direct", pair, cluster).edges for pair in ((0, 1), (2, 3))]
    assert pairs[0].keys() & pairs[1].keys() == {("host", 0)}
    four = plan("all_reduce", "ring", (0, 1, 2, 3), cluster).edges
    assert four["host", 0] == pytest.approx(4 * 1.5 / cluster.board.host_rate)


def test_gpus_of_a_mesh_without_a_wire_go_through_the_host():
    cluster = find_cluster("dgx1-v100")
    assert plan("send", "direct", (0, 3), cluster).edges == {("wire", 0, 3): 1 / 40e9}
    assert ("host", 0) in plan("send", "direct", (0, 5), cluster).edges
    assert ("host", 0) in plan("all_reduce", "ring", (0, 5), cluster).edges


@pytest.mark.parametrize("network", ["hdr", "ethernet100"])
@pytest.mark.parametrize("leaf", [None, 1, 2])
@pytest.mark.parametrize("name", ["dgx1-v100", "dgx-a100", "rtx4090-workstation"])
def test_all_to_all_is_a_message_from_each_to_each(name, network, leaf):
    network = dataclasses.replace(find_network(network), nodes_per_leaf=leaf)
    cluster = dataclasses.replace(find_cluster(name, 3, gpus_per_node=4), network=network)
    members = (0, 1, 3, 4, 6, 9, 11)
    expected = {}
    for pair in itertools.permutations(members, 2):
        for edge, load in plan("send", "direct", pair, cluster).edges.items():
            expected[edge] = expected.get(edge, 0.0) + load / len(members)
    assert plan("all_to_all", "direct", members, cluster).edges == pytest.approx(expected)


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "broadcast"])
def test_what_leaves_the_nodes_of_a_ring_enters_them(collective):
    cluster = find_cluster("dgx-a100", 3)
    edges = plan(collective, "ring", tuple(range(24)), cluster).edges
    way = {w: sum(x for e, x in edges.items() if e[0] == "nic" and e[-1] == w) for w in
           ("in", "out")}  # fmt: skip
    assert way["in"] == pytest.approx(way["out"])
    factor = {"all_reduce": 2 * 23 / 24, "all_gather": 23 / 24, "broadcast": 1}[collective]
    assert way["in"] == pytest.approx(3 * factor / cluster.network.nic_rate)


def test_a_second_level_of_switches_is_used_by_those_who_cross_it():
    network = Network("two levels", 8, 25e9, 1e-6, nodes_per_leaf=2, oversubscription=8.0)
    cluster = dataclasses.replace(find_cluster("dgx-a100", 4), network=network)
    within = plan("all_reduce", "ring", tuple(range(16)), cluster)
    beyond = plan("all_reduce", "ring", tuple(range(32)), cluster)
    assert not [edge for edge in within.edges if edge[0] == "uplink"]
    assert within.levels == 1
    assert beyond.levels == 3
    # Two nodes with 8 cards each, divided by 8: the cards are narrower only for one node's traffic.
    assert beyond.edges["uplink", 0, "in"] == pytest.approx(2 * 31 / 32 / (2 * network.nic_rate))
    assert beyond.slowest == beyond.edges["uplink", 1, "out"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: build_cluster(16, "a100", "nvlink3"), "16 GPUs do not fit.*more nodes"),
        (lambda: build_cluster(16, "a100", "nvlink3", nodes=2), "without a network.*hdr"),
        (lambda: build_cluster(9, "a100", "nvlink3", nodes=2, network="hdr"), "9 GPUs.*2 nodes"),
        (lambda: build_cluster(8, "a100", "nvlink3", 2, "token ring"), "'token ring'.*ethernet100"),
        (lambda: find_cluster("cray-1"), "'cray-1'.*dgx-a100"),
        (lambda: find_cluster("dgx-a100", nodes=0), "8 GPUs|0 nodes|0 GPUs"),
        (lambda: dataclasses.replace(NETWORKS["hdr"], nics=0), "nics is 0; give more"),
        (lambda: dataclasses.replace(NETWORKS["hdr"], latency=-1), "latency is -1"),
        (lambda: dataclasses.replace(NETWORKS["hdr"], rate=math.nan), "rate is nan"),
        (lambda: dataclasses.replace(CUBE, kind="star"), "'star'.*mesh"),
        (lambda: dataclasses.replace(CUBE, rate=0), "rate is 0"),
        (lambda: Cluster("x", None, None, CUBE, gpus_per_node=2.5), "2.5; give a positive integer"),
    ],
)
def test_mistakes_are_named_with_a_remedy(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_board_of_ones_own():
    board = Board("two", "switch", 1e9, 2, "ampere", 1, host_rate=1e9, pcie_rate=1e9)
    cluster = Cluster("small", None, None, board, 2)
    assert plan("all_reduce", "ring", (0, 1), cluster).slowest == 1e-9

"""Links by a preset's name or a rate, with settings behind colons."""

import dataclasses

import pytest

from simgpu.hardware import GPUS, LINKS, assumptions, find_gpu_and_link, find_link
from simgpu.hardware.links import CPU_GENERATIONS
from simgpu.network import build_cluster, cost

GIB = 2**30


def test_a_rate_is_what_copies_reach():
    link = find_link("25GB/s")
    assert (link.name, link.peer) == ("25GB/s", True)
    assert link.bandwidth == link.peer_bandwidth == 25e9
    assert find_link("200Gbit/s").bandwidth == 25e9
    assert link.host_seconds(25e9, pinned=True, to_host=True) == pytest.approx(1, rel=1e-4)
    assert link.sources["bandwidth"] == "given"


@pytest.mark.parametrize(("lanes", "share"), [(16, 1), (8, 1 / 2), (4, 1 / 4), (1, 1 / 16)])
def test_fewer_lanes_are_as_much_slower(lanes, share):
    narrow, whole = find_link(f"pcie4:x{lanes}"), LINKS["pcie4"]
    assert narrow.bandwidth == share * whole.bandwidth == narrow.peer_bandwidth
    assert find_link(f"nvlink4:x{lanes}").peer_bandwidth == LINKS["nvlink4"].peer_bandwidth
    assert find_link(f"nvlink4:x{lanes}").bandwidth == share * LINKS["nvlink4"].bandwidth


def test_staged_is_the_preset_of_cards_without_peer_access():
    staged = dataclasses.replace(find_link("pcie4:staged"), name="pcie4_staged")
    assert staged == LINKS["pcie4_staged"]
    assert dataclasses.replace(find_link("pcie4_staged:p2p"), name="x").peer


@pytest.mark.parametrize(
    ("memory", "rate"),
    [
        ("2xsapphire-rapids", 245.76e9),  # 16 channels of 38.4 GB/s, 80 %, written and read
        ("16xddr5-4800", 245.76e9),
        ("1xmilan", 81.92e9),
        ("2xddr5-5600", 35.84e9),
    ],
)
def test_the_memory_of_the_host_is_its_channels(memory, rate):
    link = find_link(f"pcie5:staged:{memory}")
    assert link.host_rate == pytest.approx(rate)
    assert link.bandwidth == LINKS["pcie5"].bandwidth
    assert "written once and read once" in link.sources["host_rate"]


def test_presets_keep_the_assumed_memory():
    assert {link.host_rate for link in LINKS.values()} == {assumptions.HOST_RATE}
    eight = find_link("pcie4:1xmilan").host_rate
    assert eight == pytest.approx(assumptions.HOST_RATE, rel=0.05), "as HOST_RATE's comment says"
    assert all("DDR" in source for *_, source in CPU_GENERATIONS.values())


@pytest.mark.parametrize(
    ("link", "gpus", "num_bytes", "published"),
    [
        ("pcie5:staged:2xsapphire-rapids", 8, 4 * GIB, 28e9),  # RTX 5090s, NVIDIA/nccl issue 1639
        ("pcie4:p2p", 5, 33554432, 24.69e9),  # RTX 4090s, tinygrad/open-gpu-kernel-modules, 17
    ],
)
def test_boxes_of_consumer_cards_sum_at_published_rates(link, gpus, num_bytes, published):
    """No number of these links was chosen by these measurements."""
    found = cost("all_reduce", num_bytes, range(gpus), build_cluster(gpus, "rtx4090", link))
    assert found.bus_bandwidth == pytest.approx(published, rel=0.1)
    plain = build_cluster(gpus, "rtx4090", link.partition(":")[0])
    usual = cost("all_reduce", num_bytes, range(gpus), plain)
    assert usual.bus_bandwidth < 0.6 * published


def test_every_card_has_a_link_of_its_bus():
    buses = {gpu: find_gpu_and_link(gpu)[1].name.partition(":")[0] for gpu in GPUS}
    assert buses["rtx5090"] == buses["rtxpro6000"] == buses["h100pcie"] == "pcie5"
    assert buses["l40s"] == buses["a6000"] == buses["a100pcie"] == "pcie4"
    assert (buses["h800"], buses["gh200"], buses["b300"]) == (
        "nvlink4_400", "nvlink4_c2c", "nvlink5",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("pcie9", "unknown Link 'pcie9'; did you mean 'pcie5'"),
        ("fibre", "unknown Link 'fibre'; give one of pcie3.*a rate such as 25GB/s"),
        ("25GB", "unknown Link '25GB'"),
        ("pcie4:x3", "'x3' is no setting; give a rate"),
        ("pcie4:2xnehalem", "'2xnehalem' is no setting; .*of rome, milan"),
        ("pcie4:0xgenoa", "'0xgenoa' is no setting"),
        ("25GB/s:x8", "x8 needs a preset"),
        ("nvlink4:p2p", "p2p and staged are for PCIe"),
        ("pcie4_bridge112:staged", "p2p and staged are for PCIe"),
        ("pcie4:", "'' is no setting"),
        ("pcie4:p2p:2xmilan", "with p2p copies pass by the host's memory; leave 2xmilan out"),
    ],
)
def test_other_words_are_refused_with_the_way_to_write_them(bad, why):
    with pytest.raises(ValueError, match=why):
        find_link(bad)

"""Presets and their two formulas."""

import dataclasses
import itertools
import json
import math

import pytest

from simgpu.hardware import CPUS, DTYPES, GPUS, LINKS, assumptions, find_cpu, find_gpu, find_link
from simgpu.hardware.cards import FAMILIES

PRODUCT_FLOPS = 2 * 4000**3
PRODUCT_BYTES = 3 * 4 * 4000**2


def test_the_promised_presets_are_there():
    assert set(GPUS) >= {"k80", "t4", "v100", "a100", "rtx4090", "h100", "h200", "b200"}
    assert sum(map(len, FAMILIES.values())) == len(GPUS), "no name is taken twice"
    assert {"pcie3", "pcie4", "pcie5", "nvlink2", "nvlink3", "nvlink4", "nvlink5"} <= set(LINKS)
    assert CPUS


@pytest.mark.parametrize("spec", [*GPUS.values(), *CPUS.values()], ids=lambda spec: spec.name)
def test_assumptions_are_the_same_for_every_preset(spec):
    assert spec.compute_efficiency == assumptions.COMPUTE_EFFICIENCY
    assert spec.memory_efficiency == assumptions.MEMORY_EFFICIENCY
    for name in ("launch_overhead", "kernel_overhead"):
        if hasattr(spec, name):
            assert getattr(spec, name) == getattr(assumptions, name.upper())
            assert spec.sources[name].startswith("assumed")


@pytest.mark.parametrize("link", LINKS.values(), ids=lambda link: link.name)
def test_assumptions_are_the_same_for_every_link(link):
    assert link.pageable_to_host == assumptions.PAGEABLE_TO_HOST
    assert link.latency == assumptions.COPY_LATENCY


@pytest.mark.parametrize("spec", GPUS.values(), ids=lambda spec: spec.name)
def test_every_number_of_a_gpu_has_a_source(spec):
    numbers = {f.name for f in dataclasses.fields(spec)} - {"name", "sources", "flops"}
    assert spec.backward_launch_overhead is None  # what launch_overhead is
    numbers.remove("backward_launch_overhead")
    assert numbers | {f"flops.{dtype}" for dtype in spec.flops} == set(spec.sources)
    assert set(DTYPES) <= set(spec.flops) <= {*DTYPES, "float8", "int8"}


@pytest.mark.parametrize("spec", LINKS.values(), ids=lambda spec: spec.name)
def test_every_number_of_a_link_has_a_source(spec):
    assert {f.name for f in dataclasses.fields(spec)} - {"name", "sources"} == set(spec.sources)


def test_newer_hardware_is_not_slower():
    datacentre = [GPUS[name] for name in ("k80", "v100", "a100", "h100", "h200", "b200")]
    for older, newer in itertools.pairwise(datacentre):
        assert newer.memory_bandwidth >= older.memory_bandwidth
        assert newer.flops["float32"] >= older.flops["float32"]
    for family in (("pcie3", "pcie4", "pcie5"), ("nvlink2", "nvlink3", "nvlink4", "nvlink5")):
        rates = [(LINKS[name].bandwidth, LINKS[name].peer_bandwidth) for name in family]
        assert rates == sorted(rates)


def test_roofline_takes_the_slower_side():
    gpu = find_gpu("v100")
    memory_bound = gpu.seconds(flops=1, nbytes=9e9)
    assert memory_bound == pytest.approx(gpu.kernel_overhead + 9e9 / (900e9 * 0.8))
    assert gpu.seconds(0, 0) == gpu.kernel_overhead
    assert gpu.seconds(PRODUCT_FLOPS, 0) == pytest.approx(
        gpu.kernel_overhead + PRODUCT_FLOPS / (15.7e12 * 0.75)
    )


def test_tf32_differs_from_float32_only_from_ampere_on():
    for name in ("k80", "t4", "v100"):
        assert GPUS[name].flops["tf32"] == GPUS[name].flops["float32"]
    for name in ("a100", "h100", "h200"):
        assert GPUS[name].flops["tf32"] > 4 * GPUS[name].flops["float32"]


@pytest.mark.parametrize("card", FAMILIES["GeForce"], ids=lambda card: card.name)
def test_geforce_cards_multiply_at_the_rate_with_float32_sums(card):
    """What is printed for 16 bits is four times float32's rate, with float16 sums."""
    gpu = GPUS[card.name]
    for dtype in ("bfloat16", "float16"):
        assert gpu.flops[dtype] == pytest.approx(2 * gpu.flops["float32"], rel=0.01)
        assert "float32 sums" in gpu.sources[f"flops.{dtype}"]
    assert gpu.flops["tf32"] == gpu.flops["float32"]


@pytest.mark.parametrize("name", ["a10", "a40", "a6000", "l4", "l40s", "rtx6000ada", "rtxpro6000"])
def test_the_same_chips_on_other_cards_are_twice_as_fast(name):
    flops = GPUS[name].flops
    assert 3.9 < flops["bfloat16"] / flops["float32"] < 4.1
    assert 1.9 < flops["bfloat16"] / flops["tf32"] < 2.1


def test_a_rate_that_is_not_known_is_left_out_and_refused():
    flops = {d: 1e12 for d in DTYPES[1:]}
    gpu = dataclasses.replace(GPUS["v100"], name="mine", flops=flops)
    assert gpu.matmul_seconds(8, 8, 8) > 0
    with pytest.raises(ValueError, match="mine has no peak for dtype 'float64'; known: float32"):
        gpu.matmul_seconds(8, 8, 8, dtype="float64")


def test_copies():
    link = find_link("pcie3")
    pinned = link.host_seconds(64e6, pinned=True, to_host=True)
    assert pinned == pytest.approx(5e-6 + 64e6 / (0.8 * 15.754e9))
    assert link.host_seconds(64e6, pinned=False, to_host=True) > pinned
    assert link.host_seconds(0, pinned=False, to_host=False) == link.latency
    assert find_link("nvlink2").peer_seconds(64e6) < link.peer_seconds(64e6)


def staged_by_chunks(link, nbytes):
    """Move chunk after chunk down; each goes up when it is there and the one before it is up."""
    down = up = 0.0
    while True:
        chunk = min(nbytes, assumptions.STAGING_CHUNK)
        seconds = link.latency + chunk / link.bandwidth
        down += seconds
        up = max(up, down) + seconds
        nbytes -= chunk
        if nbytes <= 0:
            return up


@pytest.mark.parametrize("nbytes", [0, 4, 2**20, 2**20 + 1, 3.5 * 2**20, 64e6])
def test_a_staged_peer_copy_is_a_pipeline_of_chunks(nbytes):
    link = find_link("pcie4_staged")
    assert not link.peer
    assert link.peer_seconds(nbytes) == pytest.approx(staged_by_chunks(link, nbytes))
    assert link.peer_seconds(nbytes) >= find_link("pcie4").peer_seconds(nbytes)


def test_staging_costs_two_latencies_and_little_of_the_rate():
    for name in ("pcie3", "pcie4", "pcie5"):
        direct = find_link(name)
        staged = dataclasses.replace(direct, peer=False)
        assert staged.peer_seconds(4) == pytest.approx(2 * direct.peer_seconds(4))
        assert 1.05 < staged.peer_seconds(1e9) / direct.peer_seconds(1e9) < 1.25


def test_specs_pass_through_and_survive_json():
    for gpu in GPUS.values():
        assert find_gpu(gpu) is gpu
        assert type(gpu)(**json.loads(json.dumps(dataclasses.asdict(gpu)))) == gpu
        hash(gpu)
    for link in LINKS.values():
        assert find_link(link) is link
        assert type(link)(**json.loads(json.dumps(dataclasses.asdict(link)))) == link
        hash(link)


@pytest.mark.parametrize("find", [find_gpu, find_link, find_cpu])
@pytest.mark.parametrize("bad", ["?", "", None, 3])
def test_an_unknown_preset_names_the_known_ones(find, bad):
    presets = {find_gpu: GPUS, find_link: LINKS, find_cpu: CPUS}[find]
    with pytest.raises(ValueError, match="unknown") as error:
        find(bad)
    assert repr(bad) in str(error.value)
    assert all(name in str(error.value) for name in presets)


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, "fast", None, True])
@pytest.mark.parametrize("field", ["memory_bandwidth", "memory", "compute_efficiency"])
def test_gpu_refuses_bad_numbers_by_name(field, bad):
    with pytest.raises(ValueError, match=field):
        dataclasses.replace(GPUS["v100"], **{field: bad})


@pytest.mark.parametrize("field", ["launch_overhead", "kernel_overhead"])
def test_gpu_overheads_may_be_zero_but_not_negative(field):
    assert getattr(dataclasses.replace(GPUS["v100"], **{field: 0.0}), field) == 0
    with pytest.raises(ValueError, match=field):
        dataclasses.replace(GPUS["v100"], **{field: -1e-6})


def test_gpu_refuses_efficiency_above_one_and_missing_dtypes():
    with pytest.raises(ValueError, match=r"memory_efficiency.*at most 1"):
        dataclasses.replace(GPUS["v100"], memory_efficiency=1.2)
    with pytest.raises(ValueError, match="lacks tf32"):
        dataclasses.replace(GPUS["v100"], flops={d: 1e12 for d in DTYPES if d != "tf32"})
    with pytest.raises(ValueError, match=r"flops\['float16'\]"):
        dataclasses.replace(GPUS["v100"], flops={**GPUS["v100"].flops, "float16": 0})
    with pytest.raises(ValueError, match="give a dict"):
        dataclasses.replace(GPUS["v100"], flops=15.7e12)
    with pytest.raises(ValueError, match="name"):
        dataclasses.replace(GPUS["v100"], name="")


@pytest.mark.parametrize(
    ("field", "bad"), [("bandwidth", 0), ("pageable_to_host", -1), ("latency", -1), ("peer", 1)]
)
def test_link_refuses_bad_values(field, bad):
    with pytest.raises(ValueError, match=field):
        dataclasses.replace(LINKS["pcie3"], **{field: bad})


def test_an_unknown_dtype_is_named():
    with pytest.raises(ValueError, match=r"int7.*float32"):
        GPUS["v100"].seconds(1, 1, "int7")


def test_cpu_time():
    cpu = find_cpu("laptop4")
    assert cpu.seconds(PRODUCT_FLOPS, PRODUCT_BYTES) > 10 * find_gpu("v100").seconds(
        PRODUCT_FLOPS, PRODUCT_BYTES
    )
    assert cpu.seconds(0, 0) == cpu.op_overhead

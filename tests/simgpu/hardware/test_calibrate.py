"""Measuring a GPU: on simulated ones, whose numbers are known; the file of a GPU, and bad ones."""

import dataclasses
import json

import pytest
import torch

import simgpu as sim
from simgpu.calibration import main
from simgpu.hardware import DTYPES, GPUS, LINKS, find_gpu_and_link, gpu_file
from simgpu.network import build_cluster

SLOW_GPU = dataclasses.replace(GPUS["t4"], launch_overhead=3e-6, kernel_overhead=8e-6)
SLOW_LINK = dataclasses.replace(LINKS["nvlink2"], latency=2e-5, pageable_bandwidth=2e9)
SHAPES = [(4096, 4096, 4096), (8192, 1024, 8192), (512, 512, 512), (100, 1000, 3000)]


@pytest.fixture
def path(tmp_path):
    """Return the file of a calibrated GPU."""
    sim.configure(1, gpu="v100", link="pcie3", numerics=False)
    assert main(["--device", "sim:0", "--output", str(tmp_path / "mine.json")]) == 0
    return tmp_path / "mine.json"


@pytest.mark.parametrize(
    ("gpu", "link"),
    [(GPUS["h100"], LINKS["pcie4"]), (GPUS["v100"], LINKS["pcie3"]), (SLOW_GPU, SLOW_LINK)],
    ids=["h100", "v100", "slow to start"],
)
def test_calibrating_a_simulated_gpu_finds_its_numbers(gpu, link):
    (device,) = sim.configure(1, gpu=gpu, link=link, numerics=False)
    found, measured = sim.calibrate(device)
    for dtype in DTYPES:
        for shape in SHAPES:
            seconds = gpu.matmul_seconds(*shape, dtype=dtype)
            assert found.matmul_seconds(*shape, dtype=dtype) == pytest.approx(seconds, rel=0.005)
    assert found.seconds(0, 10**9) == pytest.approx(gpu.seconds(0, 10**9), rel=0.005)
    for name in ("memory", "launch_overhead", "kernel_overhead"):
        assert getattr(found, name) == pytest.approx(getattr(gpu, name), rel=0.005), name
    for name in gpu_file.COPIES:
        assert measured["copies"][name] == pytest.approx(getattr(link, name), rel=0.005), name
    assert torch.get_float32_matmul_precision() == "highest"


def test_what_cannot_be_multiplied_is_as_float32(monkeypatch):
    def mm(a, b, real=torch.mm):
        if a.dtype == torch.bfloat16:
            raise RuntimeError("not implemented")
        return real(a, b)

    monkeypatch.setattr(torch, "mm", mm)
    (device,) = sim.configure(1, gpu="a100", numerics=False)
    found, _ = sim.calibrate(device)
    assert found.flops["bfloat16"] == found.flops["float32"] < found.flops["tf32"]


@pytest.mark.parametrize("device", ["cpu", "sim:0"] + ["cuda:0"] * (not torch.cuda.is_available()))
def test_only_a_gpu_that_is_there_is_measured(device, capsys):
    sim.configure(1)  # computes values, which would take hours
    with pytest.raises(
        ValueError, match=rf"{device} is no CUDA device.*write a GPU's file by hand"
    ):
        sim.calibrate(device)
    for option in ("--device", device), ("--output", "x.txt"), ("--output", "/nowhere/x.json"):
        with pytest.raises(SystemExit):
            main(option)
        assert option[1] in capsys.readouterr().err


def test_a_file_stands_where_a_name_can(path):
    gpu, link = find_gpu_and_link(path)
    assert sim.find_gpu(str(path)) == gpu
    copies = json.loads(path.read_text())["copies"]
    assert link == dataclasses.replace(LINKS["nvlink2"], **copies), "the usual one of a v100"
    assert find_gpu_and_link(path, "pcie5")[1] == dataclasses.replace(LINKS["pcie5"], **copies)
    sim.configure(2, gpu=path, numerics=False)
    assert (sim.get_device_spec(), sim.get_link_spec()) == (gpu, link)
    assert build_cluster(4, str(path)).board.kind == "mesh"


BY_HAND = gpu_file.__doc__.partition("hypothetical GPU::")[2]  # the example in the docstring


def test_a_gpu_that_is_written_by_hand(tmp_path):
    (tmp_path / "next.json").write_text(BY_HAND)
    gpu, link = find_gpu_and_link(tmp_path / "next.json")
    assert (gpu.name, gpu.memory, link) == ("next", 288 * 2**30, LINKS["nvlink5"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="simgpu GPU 2"), "format is 'simgpu GPU 2'; this.* GPU 1"),
        (lambda d: d.pop("gpu"), "the file lacks gpu; .*help"),
        (lambda d: d["gpu"].pop("memory"), "gpu lacks memory; .*help"),
        (lambda d: d["gpu"].update(memory="much"), "memory is 'much'; give a positive"),
        (lambda d: d["gpu"]["flops"].update(tf32=-1e12), r"flops\['tf32'\] is -1.*; give"),
        (lambda d: d["gpu"].update(speed=3), "gpu has speed; known are name, flops"),
        (lambda d: d.update(gpu=[]), r"gpu is '\[\]'; give an object"),
        (lambda d: d.update(link="nvlink9"), "unknown Link 'nvlink9'; did you mean 'nvlink"),
        (lambda d: d.update(link="pcie4:x3"), "link 'pcie4:x3': 'x3' is no setting"),
        (lambda d: d.update(copies={"latency": -1}), "latency is -1; give a time"),
    ],
)
def test_a_bad_file_names_the_key_and_the_remedy(tmp_path, change, message):
    path, data = tmp_path / "bad.json", json.loads(BY_HAND)
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=rf"bad\.json: .*{message}"):
        sim.configure(1, gpu=str(path))


@pytest.mark.parametrize("content", ["{", "[" * 100_000, "\ud800", None])
def test_what_is_no_json_or_not_there(tmp_path, content):
    path = tmp_path / "bad.json"
    if content is not None:
        path.write_text(content, errors="surrogatepass")
    with pytest.raises(ValueError, match=r"bad\.json.*(not JSON|No such file).*by hand"):
        sim.find_gpu(path)

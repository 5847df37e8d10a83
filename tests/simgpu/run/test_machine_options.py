"""The machine that the options of the command name: memory, networks, throughput."""

import pytest

import simgpu as sim
from simgpu.hardware import default
from simgpu.network.networks import NETWORKS
from simgpu.rates_and_sizes import memory_size, rate
from simgpu.run.options import cluster_of, make_parser, per_step


def cluster(*options):
    given = [f"{name}={value}" for name, value in zip(options[::2], options[1::2], strict=True)]
    return cluster_of(make_parser().parse_args([*given, "train.py"]))


def test_memory_is_another_and_nothing_else():
    gpu = cluster("--gpu", "a100", "--memory", "40GB").gpu
    assert gpu.memory == 40 * 2**30
    assert gpu.flops == sim.GPUS["a100"].flops


@pytest.mark.parametrize(
    ("text", "cards", "bytes_per_second"),
    [("25GB/s", 1, 25e9), ("200Gbit/s:8", 8, 25e9), ("1.6Tb/s:4", 4, 200e9), ("800Mbps:2", 2, 1e8)],
)
def test_a_network_is_a_rate_and_cards(text, cards, bytes_per_second):
    network = cluster("--nnodes", "2", "--nproc-per-node", "8", "--network", text).network
    assert (network.nics, network.rate) == (cards, bytes_per_second)
    assert network.latency == NETWORKS["ndr"].latency


@pytest.mark.parametrize(
    "text", ["25GB", "GB/s", "0GB/s", "25GB/s:", "25GB/s:0", "25GB/s:x", "-1GB/s"]
)
def test_other_networks_are_refused_with_the_way_to_write_them(text):
    if text == "25GB/s:":  # no cards said: one
        assert cluster("--network", text).network.nics == 1
        return
    with pytest.raises(ValueError, match=r"25GB/s:8, or a Network|nics is 0"):
        cluster("--network", text)


@pytest.mark.parametrize("text", ["", "0", "GB", "40 KB", "-1GB", "4e3"])
def test_other_sizes_are_refused(text):
    with pytest.raises(ValueError, match=r"--memory: .* write it like 40GB"):
        cluster("--memory", text)


def test_units():
    assert memory_size("80GiB") == memory_size("81920 MB") == 80 * 2**30
    assert rate("400Gbit/s") == rate("50 GB/s") == 50e9


@pytest.mark.parametrize("text", ["512", "images", "0 images", "-1 images", "1 2 3"])
def test_work_is_a_number_and_a_unit(text):
    with pytest.raises(ValueError, match="give a number and a unit"):
        per_step(make_parser().parse_args([f"--per-step={text}", "train.py"]))


def test_work_with_separators():
    assert per_step(make_parser().parse_args(["--per-step", "524,288 tokens", "t.py"])) == (
        524288, "tokens",
    )  # fmt: skip


def test_launches_that_limit_a_run_are_called_assumed(simgpu_run):
    many = "import torch\nx = torch.ones(8, device='cuda')\nfor _ in range(200):\n    x.add_(1)\n"
    _, out, _ = simgpu_run(many, "--nproc-per-node", "1")
    assert "note: launches limit this run, and their time is assumed: 5 µs each" in out
    few = "import torch\nx = torch.ones(4096, 4096, device='cuda')\nfor _ in range(9):\n    x @ x\n"
    _, out, _ = simgpu_run(few, "--nproc-per-node", "1", "--shapes-only")
    assert "limited by             compute" in out
    assert "note" not in out


@pytest.mark.parametrize(("gib", "is_said"), [(9.6, True), (9.2, False)])
def test_a_gpu_that_is_almost_full_is_called_so(gib, is_said, simgpu_run):
    code = (
        "import os, torch\ntorch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n"
        "x = torch.ones(4096, 4096, device='cuda')\nfor _ in range(9):\n    x @ x\n"
        f"if os.environ['RANK'] == '1':\n    y = torch.empty(int({gib - 0.15} * 2**30), "
        "dtype=torch.uint8, device='cuda')\n"
    )
    _, out, err = simgpu_run(code, "--nproc-per-node", "2", "--memory", "10GiB", "--shapes-only")
    assert "peak memory" in out, err
    said = [line for line in out.splitlines() if line.startswith("note:")]
    assert bool(said) is is_said
    assert ("of 10 GiB are reserved on rank 1: a real" in "".join(said)) is is_said


@pytest.mark.parametrize(
    ("options", "num_gpus"), [(("--nproc-per-node", "2"), 2), (("--nproc-per-node", "gpu"), 8)]
)
def test_a_gpu_is_looked_for_once(simgpu_run, monkeypatch, options, num_gpus):
    looked_for, find_gpu = [], default.find_gpu
    monkeypatch.setattr(default, "find_gpu", lambda gpu: looked_for.append(gpu) or find_gpu(gpu))
    source = "import torch\ntorch.ones(9, device=torch.accelerator.current_accelerator()) + 1\n"
    code, out, err = simgpu_run(source, "--gpu", "h100", *options)
    assert code == 0, err
    assert f"{num_gpus} x h100" in out
    assert looked_for == ["h100"]

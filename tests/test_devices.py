"""Devices: exactly as many as asked for, and never silently others."""

import pytest
import torch

from d2lmini import devices, gpus, sim, try_all_gpus, try_gpu
from simgpu.hardware import default


def set_cuda_count(monkeypatch, count):
    monkeypatch.setattr(devices, "usable_gpus", lambda: (count, None))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda i=0: "Test GPU")


def test_try_gpu_is_cuda_where_there_is_one_and_else_the_cpu(monkeypatch):
    set_cuda_count(monkeypatch, 1)
    assert try_gpu() == torch.device("cuda:0")
    assert try_gpu(1) == torch.device("cpu")
    with pytest.raises(ValueError, match="-1"):
        try_gpu(-1)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_try_all_gpus_is_never_empty(monkeypatch, count):
    set_cuda_count(monkeypatch, count)
    assert len(try_all_gpus()) == max(count, 1)


def test_gpus_takes_real_ones_where_there_are_enough(monkeypatch, capsys, no_gpu_setting):
    set_cuda_count(monkeypatch, 2)
    assert gpus(2) == [torch.device("cuda:0"), torch.device("cuda:1")]
    assert capsys.readouterr().out == "gpus(2): 2 x Test GPU (2 CUDA devices here)\n"


@pytest.mark.parametrize("count", [0, 1])
def test_gpus_are_k_different_devices_also_where_fewer_are_there(
    monkeypatch, capsys, no_gpu_setting, count
):
    set_cuda_count(monkeypatch, count)
    # The published comparison of one GPU with "two" used these on a machine with one:
    assert len({try_gpu(i) for i in range(2)}) == 1 + count
    assert len(set(gpus(2))) == 2
    out = capsys.readouterr().out
    assert out.startswith("gpus(2): 2 simulated GPUs, a100 on nvlink3")
    assert f"({count} CUDA device" in out
    assert out.count("\n") == 1


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("sim", "simulated GPUs, a100 on nvlink3"),
        ("sim:h100", "simulated GPUs, h100 on nvlink4"),
        ("auto", "2 x Test GPU"),
    ],
)
def test_setting_forces_the_choice(monkeypatch, capsys, setting, says):
    set_cuda_count(monkeypatch, 2)
    monkeypatch.setenv("D2LMINI_GPUS", setting)
    gpus(2)
    assert says in capsys.readouterr().out


def test_real_gpus_that_are_not_there_are_an_error(monkeypatch):
    set_cuda_count(monkeypatch, 1)
    monkeypatch.setenv("D2LMINI_GPUS", "cuda")
    with pytest.raises(ValueError, match=r"2 real GPUs.*has 1.*D2LMINI_GPUS=auto"):
        gpus(2)


def test_naming_a_gpu_or_a_link_asks_for_simulated_ones(monkeypatch, capsys, no_gpu_setting):
    set_cuda_count(monkeypatch, 8)
    assert gpus(2, gpu="h100")[1].type == "sim"
    assert gpus(2, link="pcie4")[1].type == "sim"
    assert "h100" in capsys.readouterr().out


@pytest.mark.parametrize("k", [0, -1, 1.0, "2", True, None])
def test_k_must_be_a_positive_integer(k):
    with pytest.raises(ValueError, match=r"positive integer.*at least 1"):
        gpus(k)


@pytest.mark.parametrize("setting", ["gpu", "cuda:v100", "simulated"])
def test_unknown_setting_is_an_error_that_names_the_known_ones(monkeypatch, setting):
    monkeypatch.setenv("D2LMINI_GPUS", setting)
    with pytest.raises(ValueError, match=r"auto, cuda, sim, or sim:NAME.*v100"):
        gpus(1)


def test_unknown_preset_names_the_known_ones(monkeypatch):
    monkeypatch.setenv("D2LMINI_GPUS", "sim:gtx9000")
    with pytest.raises(ValueError, match=r"gtx9000.*v100"):
        gpus(1)


def test_gpus_names_every_kind_of_a_mixed_machine(monkeypatch, capsys, no_gpu_setting):
    set_cuda_count(monkeypatch, 3)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda i=0: "A" if i < 2 else "B")
    gpus(3)
    assert capsys.readouterr().out == "gpus(3): 2 x A + 1 x B (3 CUDA devices here)\n"


@pytest.fixture
def own_default(monkeypatch):
    """Leave the GPU that is simulated by default to the test."""
    monkeypatch.setattr(default, "_default", dict(default._default))
    monkeypatch.setenv("D2LMINI_GPUS", "sim")


def names_in_use():
    return sim.get_device_spec().name, sim.get_link_spec().name


def test_gpus_say_what_they_are_unless_they_are_quiet(own_default, capsys):
    sim.set_default_gpu("h200")
    loud = gpus(2)
    assert capsys.readouterr().out.startswith("gpus(2): 2 simulated GPUs, h200 on nvlink4 (")
    assert gpus(2, quiet=True) == loud
    assert capsys.readouterr().out == ""
    assert names_in_use() == ("h200", "nvlink4")


def test_quiet_about_real_gpus_too(monkeypatch, capsys):
    monkeypatch.setenv("D2LMINI_GPUS", "auto")
    monkeypatch.setattr("d2lmini.devices.usable_gpus", lambda: (2, None))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda i=0: "Test GPU")
    assert gpus(2, quiet=True) == [torch.device("cuda:0"), torch.device("cuda:1")]
    assert capsys.readouterr().out == ""


def test_the_setting_wins_over_the_default_and_a_name_over_the_setting(own_default, monkeypatch):
    sim.set_default_gpu("v100", "pcie3")
    monkeypatch.setenv("D2LMINI_GPUS", "sim:h100")
    gpus(1, quiet=True)
    assert names_in_use() == ("h100", "nvlink4")
    gpus(1, link="pcie5", quiet=True)
    assert names_in_use() == ("h100", "pcie5")
    gpus(1, gpu="t4", quiet=True)
    assert names_in_use() == ("t4", "pcie3")
    monkeypatch.setenv("D2LMINI_GPUS", "sim")
    gpus(1, quiet=True)
    assert names_in_use() == ("v100", "pcie3")

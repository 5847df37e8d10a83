"""Which GPU and link are simulated where nobody names them."""

import dataclasses
import sys

import pytest
import torch

import simgpu as sim
from simgpu import GPUS, LINKS, naming
from simgpu.clock.current import state
from simgpu.hardware import default, find_gpu_and_link, gpu_file
from simgpu.network import build_cluster
from simgpu.run.command import main

USUAL = {gpu: find_gpu_and_link(gpu)[1].name for gpu in GPUS}


@pytest.fixture(autouse=True)
def default_of_the_process(monkeypatch):
    """Leave the default to the test, and restore it."""
    monkeypatch.setattr(default, "_default", dict(default._default))


def names(gpu=None, link=None):
    return tuple(spec.name for spec in find_gpu_and_link(gpu, link))


def names_in_use():
    return sim.get_device_spec().name, sim.get_link_spec().name


def own_gpu(name="mine"):
    return dataclasses.replace(GPUS["h100"], name=name)


def test_the_default_is_an_a100_with_nvlink():
    assert names() == ("a100", "nvlink3")
    sim.configure(2)
    assert names_in_use() == ("a100", "nvlink3")


def test_every_preset_has_its_usual_link():
    modules = ("v100", "a100", "h100", "b200")  # a generation of NVLink each
    assert [USUAL[gpu] for gpu in modules] == [f"nvlink{n}" for n in (2, 3, 4, 5)]
    assert USUAL["h200"] == USUAL["h100"]
    assert not LINKS[USUAL["rtx4090"]].peer
    assert USUAL["k80"] == USUAL["t4"] == "pcie3"


@pytest.mark.parametrize("gpu", USUAL)
def test_a_gpu_alone_takes_its_usual_link(gpu):
    sim.set_default_gpu(gpu)
    assert names() == (gpu, USUAL[gpu])
    sim.configure(1)
    assert names_in_use() == (gpu, USUAL[gpu])


def test_a_link_goes_with_the_default_gpu_and_with_no_other():
    sim.set_default_gpu("v100", "pcie3")
    assert names() == ("v100", "pcie3")
    assert names(gpu="h100") == ("h100", "nvlink4")
    assert names(gpu="v100") == ("v100", "nvlink2")
    assert names(link="pcie4") == ("v100", "pcie4")


def test_the_next_default_forgets_the_link_of_the_one_before():
    sim.set_default_gpu("v100", "pcie3")
    sim.set_default_gpu("h100")
    assert names() == ("h100", "nvlink4")


@pytest.mark.parametrize("wrong", [("gtx9000",), ("v100", "carrier pigeon"), ("v100", 3)])
def test_wrong_names_change_nothing(wrong):
    sim.set_default_gpu("t4")
    with pytest.raises(ValueError, match=r"unknown (GPU|Link).*give one of .*(a100|pcie3)"):
        sim.set_default_gpu(*wrong)
    assert names() == ("t4", "pcie3")


def test_a_spec_of_ones_own():
    gpu = own_gpu()
    link = dataclasses.replace(LINKS["pcie4"], name="my wire")
    sim.set_default_gpu(gpu)
    assert find_gpu_and_link() == (gpu, LINKS["nvlink3"])
    sim.set_default_gpu(gpu, link)
    assert find_gpu_and_link() == (gpu, link)
    sim.configure(2)
    assert sim.get_device_spec() is gpu
    assert sim.get_link_spec() is link
    sim.set_default_gpu("a100")
    assert find_gpu_and_link(gpu, link) == (gpu, link), "named, they need be no default"


def test_a_changed_preset_that_keeps_its_name_keeps_its_link():
    assert names(own_gpu("h100")) == ("h100", "nvlink4")


def test_gpus_that_exist_stay():
    (device,) = sim.configure(1)
    x = torch.ones(1000, 1000, device=device)

    def duration():
        before = sim.now()
        (x @ x).sum().item()
        return sim.now() - before

    expected = duration()
    sim.set_default_gpu("k80")
    assert names_in_use() == ("a100", "nvlink3")
    assert duration() == pytest.approx(expected)
    sim.reset()
    assert names_in_use() == ("a100", "nvlink3")


def test_a_machine_for_a_block_follows_it():
    sim.configure(1, gpu="t4")
    sim.set_default_gpu("b200")
    with sim.machine(2):
        assert names_in_use() == ("b200", "nvlink5")
    assert names_in_use() == ("t4", "pcie3")


def test_clusters_and_ranks_follow_it():
    sim.set_default_gpu("h100")
    cluster = build_cluster(8)
    assert (cluster.gpu.name, cluster.link.name) == ("h100", "nvlink4")
    assert sim.spawn(lambda rank: names_in_use(), nprocs=2) == [("h100", "nvlink4")] * 2
    named = sim.spawn(lambda rank: names_in_use(), nprocs=2, gpu="v100")
    assert named == [("v100", "nvlink2")] * 2


@pytest.mark.slow
def test_the_launcher_follows_it(tmp_path, monkeypatch, capsys):
    if torch.accelerator.is_available() and not naming.is_accelerator():
        pytest.skip("needs a process without GPUs")
    monkeypatch.setattr(state, "machine", None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "x = torch.ones(2, device=torch.accelerator.current_accelerator())\n"
        "print((x + x).sum().item())\n"
    )

    def summary(*options):
        assert main([*options, str(script)]) == 0
        return capsys.readouterr().out

    assert "a100 on nvlink3" in summary()
    assert "v100 on nvlink2" in summary("--gpu", "v100")
    gpu_file.write(tmp_path / "own.json", own_gpu("mine"), link="pcie5")
    assert "mine on pcie5" in summary("--gpu", str(tmp_path / "own.json"))
    sim.set_default_gpu("rtx4090")
    assert "rtx4090 on pcie4_staged" in summary()
    assert "rtx4090 on pcie4\n" in summary("--link", "pcie4")

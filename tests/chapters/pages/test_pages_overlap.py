"""What the chapter on overlap runs and looks at: the summary, the last step, its messages."""

import sys

import pytest
import torch
import torch.distributed as dist
from support.paths import CHAPTERS
from support.scripts import losses_and_norms
from torch import nn

from d2lmini import sim
from d2lmini.ddp import torchrun_command
from d2lmini.pages.overlap_and_scaling import (
    bucket_bytes,
    gradients_ready,
    last_seconds,
    length,
    messages,
    run,
)

SCRIPT = str(CHAPTERS / "scripts" / "ddp_resnet.py")


@pytest.mark.long
@pytest.mark.process
def test_the_script_has_the_same_losses_on_gloo_and_simulated():
    slim = ["--width", "16", "--steps", "6"]
    real = losses_and_norms(torchrun_command(SCRIPT, "--cpu", *slim, nproc_per_node=2))
    launcher = [sys.executable, "-m", "simgpu", "run", "--nproc-per-node", "2"]
    assert losses_and_norms([*launcher, SCRIPT, *slim]) == pytest.approx(real, abs=1e-4)
    assert len(real) == 6
    assert real[-1] < real[0]


@pytest.mark.long
@pytest.mark.process
def test_a_command_gives_its_summary_alone(tmp_path):
    (tmp_path / "tiny.py").write_text("print('mine')\nimport torch\ntorch.ones(2, device='sim')\n")
    text = run(f"simgpu run --nproc-per-node 1\n    {tmp_path}/tiny.py")
    assert text.startswith("simulated, not measured")
    assert "mine" not in text
    with pytest.raises(RuntimeError, match="missing"):
        run("simgpu run --nproc-per-node 1 missing.py")
    with pytest.raises(ValueError, match="torchrun"):
        run("torchrun tiny.py")


@pytest.mark.process
def test_the_last_step_and_its_messages():
    def program(rank):
        dist.init_process_group()
        x = torch.zeros(1000, device=torch.accelerator.current_accelerator())
        dist.all_reduce(x)
        torch.accelerator.synchronize()
        start = sim.now()
        dist.broadcast(x[:10], 0)
        dist.all_reduce(x[:500])
        torch.accelerator.synchronize()
        return sim.now() - start

    seconds = sim.spawn(program, nprocs=2)[0]
    timeline = last_seconds(seconds)
    assert length(timeline) == pytest.approx(seconds)
    assert [m.name for m in messages(timeline)] == ["broadcast", "all_reduce"]
    assert bucket_bytes(timeline) == [2000]


def test_one_gpu_alone_sends_nothing():
    (device,) = sim.configure(1, numerics=False)
    torch.ones(10, device=device)
    torch.accelerator.synchronize()
    assert messages(last_seconds(1e-6)) == []


def test_the_last_layers_gradients_are_ready_first():
    network = nn.Sequential(nn.Conv1d(1, 1, 1), nn.Conv2d(1, 2, 1), nn.Conv2d(2, 1, 1))
    ready = gradients_ready(network, 3.0)
    assert list(ready) == [4, 12, 20, 28, 32, 36]  # from the last bias to the first weight
    assert ready[12] == 2.0
    assert ready[36] == 3.0

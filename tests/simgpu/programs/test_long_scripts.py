"""``--steps``: end a long script after a few training steps."""

import json

import pytest

LONG = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group()
device = torch.accelerator.current_accelerator()
model = DDP(torch.nn.Linear(256, 256).to(device))
optimizer = torch.optim.SGD(model.parameters())
try:
    for step in range(10_000):
        model(torch.ones(64, 256, device=device)).mean().backward()
        optimizer.step()
        dist.all_reduce(torch.ones(1, device=device))
        print("step", step, dist.get_rank(), flush=True)
finally:
    print("closed", dist.get_rank(), flush=True)
torch.save(model.state_dict(), "never written")
"""


@pytest.mark.parametrize("options", [(), ("--shapes-only", "--ranks", "0")])
def test_a_long_script_ends_after_so_many_steps(options, simgpu_run):
    code, out, err = simgpu_run(
        LONG, "--nproc-per-node", "2", "--steps", "3", "--summary", "json", *options
    )
    assert code == 0, err
    assert json.loads(out.splitlines()[-1])["steps"] == 2  # the first includes the setup
    ranks = (0,) if options else (0, 1)
    shown = [line for line in out.splitlines() if line[0] != "{"]
    assert sorted(shown) == sorted(
        [f"step {s} {r}" for s in (0, 1) for r in ranks] + [f"closed {r}" for r in ranks]
    )


def test_the_summary_says_so(simgpu_run):
    _, out, _ = simgpu_run(LONG, "--steps", "2", "--nproc-per-node", "2")
    assert "\nnote: the script was ended after 2 steps (--steps)\n" in out
    short = LONG.replace("10_000", "2").replace("torch.save", "print")
    _, out, _ = simgpu_run(short, "--steps", "3", "--nproc-per-node", "2")
    assert "--steps" not in out


def test_a_number_below_one_is_refused(simgpu_run, capsys):
    with pytest.raises(SystemExit):
        simgpu_run(LONG, "--steps", "0")
    assert "--steps 0: give a positive number" in capsys.readouterr().err

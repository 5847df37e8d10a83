"""What the concise chapter shows on simulated GPUs holds for real processes, too.

A network that is changed after it was wrapped loses DDP's hooks, without an error. Here, without
GPUs, the change is one of type.
"""

import subprocess

import pytest

from d2lmini.ddp import launcher_environment, torchrun_command

PROGRAM = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
for wrap in (
    lambda net: DistributedDataParallel(net.double()),
    lambda net: DistributedDataParallel(net).double(),
):
    torch.manual_seed(0)
    net = torch.nn.Linear(8, 3)
    model = wrap(net)
    torch.manual_seed(dist.get_rank())
    model(torch.randn(4, 8).double()).square().sum().backward()
    norms = [None] * dist.get_world_size()
    dist.all_gather_object(norms, net.weight.grad.norm().item())
    if dist.get_rank() == 0:
        print(*norms)
dist.destroy_process_group()
"""


@pytest.mark.exhaustive
@pytest.mark.process
def test_only_a_network_wrapped_last_has_equal_gradients(tmp_path):
    script = tmp_path / "wrap.py"
    script.write_text(PROGRAM)
    command = torchrun_command(script, nproc_per_node=2)
    done = subprocess.run(
        command,
        env=launcher_environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    last, first = (line.split() for line in done.stdout.splitlines())
    assert len(last) == len(first) == 2
    assert last[0] == last[1]
    assert first[0] != first[1]

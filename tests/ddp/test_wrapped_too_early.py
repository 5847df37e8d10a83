"""What the concise chapter shows on simulated GPUs holds for real processes, too.

A network that is changed after it was wrapped loses DDP's hooks, without an error. Here, without
GPUs, the change is one of type.
"""

import re
import subprocess

import pytest

from d2lmini.ddp import launcher_environment, torchrun_command

PROGRAM = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
net = torch.nn.Linear(8, 3)
model = {model}
torch.manual_seed(dist.get_rank())
model(torch.randn(4, 8).double()).square().sum().backward()
line = f"gradient {{net.weight.grad.norm().item()}}\\n"
print(line, end="", flush=True)  # in one piece: the ranks share the pipe
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("model", "num_gradients"),
    [
        ("DistributedDataParallel(net.double())", 1),
        ("DistributedDataParallel(net).double()", 2),
    ],
)
def test_only_a_network_wrapped_last_has_equal_gradients(model, num_gradients, tmp_path):
    script = tmp_path / "wrap.py"
    script.write_text(PROGRAM.format(model=model))
    command = torchrun_command(script, nproc_per_node=2)
    done = subprocess.run(
        command,
        env=launcher_environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    gradients = re.findall(r"gradient (\S+)", done.stdout)
    assert len(gradients) == 2
    assert len(set(gradients)) == num_gradients

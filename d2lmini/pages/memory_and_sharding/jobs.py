"""Steps of a sharded model, its optimiser on the host, tiny gradients, and scripts."""

import re
import subprocess
import sys
from collections import Counter
from typing import NamedTuple

import torch
from torch import nn

import simgpu as sim
from d2lmini.ddp import launcher_environment, torchrun_command
from d2lmini.language_model import LanguageModel
from d2lmini.pages.memory_and_sharding.layers import GPU, join
from d2lmini.pages.memory_and_sharding.memory import train_step
from simgpu.timeline import Timeline


class Measured(NamedTuple):
    """What a step takes: bytes at most, seconds, and its collectives by name."""

    peak: int
    seconds: float
    calls: Counter


def measure_step(prepare, sizes, offload=False, batch=2, tokens=512):
    """Measure the second step of a sharded `LanguageModel` on two simulated A100s.

    Parameters
    ----------
    prepare : callable
        Shards the model, which is on the device "meta", and returns it.
    sizes : dict
        Of the model.
    offload : bool
        Keep what is sharded on the host.
    batch, tokens : int
        Sequences on each GPU, and the tokens of each.

    Returns
    -------
    Measured
    """

    def run(rank):
        device = join()
        with torch.device("meta"):
            model = prepare(LanguageModel(**sizes))
        model.to_empty(device="cpu" if offload else device)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            sim.synchronize()
            begin = sim.now()
            train_step(model, optimizer, torch.zeros(batch, tokens).long().to(device))
        sim.synchronize()
        return sim.max_memory_allocated(device), sim.now() - begin

    ((peak, seconds),) = sim.spawn(run, nprocs=2, gpu="a100", numerics=False, ranks=[0])
    spans = Timeline(sim.trace()).last(seconds).lanes()[GPU, "comm"]
    return Measured(peak, seconds, Counter(span.name for span in spans))


def adam_seconds(num_parameters, host="server16"):
    """Return the seconds that AdamW takes for float32 parameters on a simulated host."""
    sim.configure(1, gpu="a100")
    numbers = nn.Parameter(torch.ones(10_000_000))
    numbers.grad = torch.ones_like(numbers)
    adam = torch.optim.AdamW([numbers])
    with sim.host_ops(host):
        begin = sim.now()
        adam.step()
        return (sim.now() - begin) / len(numbers) * num_parameters


def tiny_targets(device):
    """Return two layers, inputs, and targets of about a thousandth, so that gradients are tiny."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    model[2].weight.data *= 1e-3
    model[2].bias.data.zero_()
    X = torch.randn(256, 32)
    return model.to(device), X.to(device), 1e-3 * X.roll(1, 1).to(device)


def train_script(script, nprocs, *options, simulated=False):
    """Start a script by torchrun on CPU processes, or on simulated GPUs.

    Parameters
    ----------
    script : str
    nprocs : int
    *options
        Of the script.
    simulated : bool
        Start ``simgpu run`` instead of torchrun.

    Returns
    -------
    steps : list of (float, float)
        The loss and the norm of each step that the script prints.
    tested : float or None
        The loss that it says it tested, if it does.
    """
    command = torchrun_command(script, *options, nproc_per_node=nprocs)
    if simulated:
        launcher = [sys.executable, "-m", "simgpu", "run"]
        command = [*launcher, f"--nproc-per-node={nprocs}", str(script), *options]
    env = launcher_environment() | {"CUDA_VISIBLE_DEVICES": ""}
    how = {"capture_output": True, "text": True, "timeout": 300, "env": env}
    done = subprocess.run(command, **how)
    if done.returncode:
        raise RuntimeError(f"{script} ended with status {done.returncode}: {done.stderr}")
    found = re.findall(r"loss (\S+), norm (\S+)", done.stdout)
    steps = [(float(loss), float(norm)) for loss, norm in found]
    tested = re.search(r"^tested: loss (\S+)", done.stdout, re.MULTILINE)
    return steps, float(tested[1]) if tested else None

"""The scripts of the chapters on collectives and tensor parallelism, real and simulated."""

import re
import subprocess
import sys

import pytest
import torch
from support.paths import SCRIPTS

from d2lmini.ddp import launcher_environment, torchrun_command

ENV = launcher_environment(threads=1) | {"CUDA_VISIBLE_DEVICES": ""}


def on_gloo(script, n, *args):
    return run(torchrun_command(SCRIPTS / script, "--cpu", *args, nproc_per_node=n))


def simulated(script, n, *args):
    command = [sys.executable, "-m", "simgpu", "run", "--nproc-per-node", str(n)]
    return run([*command, str(SCRIPTS / script), *args])


def run(command):
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.process
def test_sums_are_the_same_to_the_last_bit_on_gloo_and_simulated(tmp_path):
    saved = {}
    for launch in (on_gloo, simulated):
        file = tmp_path / f"{launch.__name__}.pt"
        out = launch("ring_plain.py", 3, "--save", str(file))
        said = re.findall(r"^3 ranks, (\w+) gives the sum: (\w+)$", out, re.MULTILINE)
        assert said == [("ring", "True"), ("tree", "True")]
        saved[launch] = torch.load(file)
    generators = [torch.Generator().manual_seed(rank) for rank in range(3)]
    total = sum(torch.randn(100_000, generator=g).double() for g in generators)
    for name in ("ring", "tree"):
        assert torch.equal(saved[on_gloo][name], saved[simulated][name])
        assert 0 < (saved[on_gloo][name] - total).abs().max() < 1e-5
    assert not torch.equal(saved[on_gloo]["ring"], saved[on_gloo]["tree"])


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize("launch", [on_gloo, simulated])
def test_gradients_of_collectives_are_those_of_one_process(launch):
    out = launch("gradients_plain.py", 2)
    found = re.findall(r"^(\w+): (\w+) of the gradients, exact: (\w+)$", out, re.MULTILINE)
    assert found == [
        ("all_gather", "reduce_scatter", "True"),
        ("reduce_scatter", "all_gather", "True"),
        ("all_reduce", "all_reduce", "True"),
        ("all_to_all", "all_to_all", "True"),
        ("broadcast", "reduce", "True"),
    ]


@pytest.mark.long
@pytest.mark.process
def test_a_step_of_a_split_model_has_as_many_sums_as_the_chapter_says():
    out = on_gloo("tensor_parallel.py", 2, "--count")
    block, loss, embedding, head = 4, 3, 1, 1
    counted = re.findall(r"^(\w+): (\d+)$", out, re.MULTILINE)
    assert counted == [("all_reduce", str(block + loss + embedding + head))]

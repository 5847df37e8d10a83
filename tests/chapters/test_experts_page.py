"""The page on experts: its code learns the same in real processes, which communicate with gloo."""

import ast
import subprocess

import nbformat
import pytest
from support.paths import CHAPTERS

from d2lmini.ddp import launcher_environment, torchrun_command

PAGE = nbformat.read(CHAPTERS / "experts.ipynb", as_version=4)
CELLS = [cell.source for cell in PAGE.cells if cell.cell_type == "code"]
HEAD = """\
from collections import namedtuple
from functools import cache, partial

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F
"""
BODY = """
dist.init_process_group("gloo")
here = lambda: torch.device("cpu")
dist.init_process_group = lambda: None
rank, ranks = dist.get_rank(), dist.get_world_size()
for layer in moe, partial(with_capacity, factor=8.0):
    found = compare(rank, layer)
    assert len(found) == 5 and max(found.values()) < 1e-5, found
for ep in 1, 2, 4:
    router, *experts = mean_gradients(rank, ep, wrong=False)
    rights = mean_on_one()
    assert difference(rights[0], router) < 1e-5
    for right, got in zip(rights[1:], experts, strict=True):
        assert difference(right.chunk(ep)[rank % ep], got) < 1e-5
_, up, _ = mean_gradients(rank, 2, wrong=True)
assert abs((up / rights[1].chunk(2)[rank % 2]).mean() - 2) < 1e-3
dist.barrier()  # or one that ends first takes the connections from the others
print("equal to one process", flush=True)
dist.destroy_process_group()
"""


def defined():
    """Return what the page defines, and the sizes of its small layer, for CPUs."""
    nodes = [node for source in CELLS for node in ast.parse(source).body]
    kept = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    wanted = ("Sizes", "small")
    for node in nodes:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in wanted:
            kept.insert(0 if node.targets[0].id == "Sizes" else len(kept), node)
    return "\n\n".join(map(ast.unparse, kept))


@pytest.mark.exhaustive
@pytest.mark.process
def test_layer_and_averages_are_those_of_one_process(tmp_path):
    script = tmp_path / "experts.py"
    script.write_text("\n".join([HEAD, defined(), BODY]))
    command = torchrun_command(script, nproc_per_node=4)
    env = launcher_environment(threads=1) | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("equal to one process") == 4

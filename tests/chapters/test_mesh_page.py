"""The page on meshes: its script is its cells and its text, and trains as one process does."""

import ast
import re
import sys

import nbformat
import pytest
from support.paths import CHAPTERS, SCRIPTS
from support.scripts import losses_and_norms

from d2lmini.ddp import torchrun_command

PAGE = nbformat.read(CHAPTERS / "putting-it-together.ipynb", as_version=4)
TEXT = "\n".join(cell.source for cell in PAGE.cells if cell.cell_type == "markdown")
SCRIPT = SCRIPTS / "mesh.py"
BODY = SCRIPT.read_text(encoding="utf-8").split('"""', 2)[2]
SIMULATED = [sys.executable, "-m", "simgpu", "run", "--gpu", "h100"]


def named(source):
    """Return what a program defines: name -> its code."""
    return {
        node.name: ast.unparse(node)
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def test_the_last_part_of_the_script_is_on_the_page():
    (fence,) = re.findall(r"^```python\n(.*?)\n```$", TEXT, re.MULTILINE | re.DOTALL)
    assert BODY.endswith(f"\n{fence}\n")


def test_the_functions_of_the_script_are_those_of_the_page():
    cells = {}
    for cell in PAGE.cells:
        if cell.cell_type == "code":
            cells |= named(cell.source)
    script = named(BODY)
    assert len(script) > 10
    script.pop("device")  # the CPU, with --cpu
    assert script == {name: cells[name] for name in script}


@pytest.fixture(scope="module")
def one_process():
    return losses_and_norms(torchrun_command(SCRIPT, "--cpu", nproc_per_node=1))


def on_gloo(ranks, *axes):
    return torchrun_command(SCRIPT, "--cpu", *axes, nproc_per_node=ranks)


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(on_gloo(4, "--context=2", "--tensor=2"), marks=pytest.mark.exhaustive),
        pytest.param(on_gloo(4, "--pipeline=2", "--replicate=2"), marks=pytest.mark.exhaustive),
        pytest.param(
            [*SIMULATED, "--nproc-per-node=8", "--nnodes=2", "--network=ndr", str(SCRIPT),
             "--shard=2", "--pipeline=2", "--context=2", "--tensor=2"],
            marks=pytest.mark.exhaustive,
        ),
    ],
    ids=["gloo, 2 axes", "gloo, stages and replicas", "16 simulated, 4 axes"],
)  # fmt: skip
def test_a_mesh_trains_as_one_process_does(command, one_process):
    losses = one_process[::2]
    assert len(losses) == 4
    assert losses[-1] < losses[0] - 0.3
    assert losses_and_norms(command) == pytest.approx(one_process, abs=2e-4)


@pytest.mark.exhaustive
@pytest.mark.process
def test_copies_that_count_twice_would_be_seen(one_process, tmp_path):
    wrong = tmp_path / "copies.py"
    source = SCRIPT.read_text(encoding="utf-8")
    right = "gradient.to_local().square().sum() / copies"
    assert source.count(right) == 1
    wrong.write_text(source.replace(right, right.removesuffix(" / copies")))
    command = torchrun_command(wrong, "--cpu", "--tensor=2", nproc_per_node=2)
    got = losses_and_norms(command)
    assert max(abs(a - b) for a, b in zip(got, one_process, strict=True)) > 1e-3

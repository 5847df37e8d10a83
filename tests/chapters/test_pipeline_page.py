"""The page on pipelines: its script is the file that it starts, and trains as one process does."""

import re
import sys

import nbformat
import pytest
from support.paths import CHAPTERS, SCRIPTS
from support.scripts import losses_and_norms

from d2lmini.ddp import torchrun_command

PAGE = nbformat.read(CHAPTERS / "pipeline-parallelism.ipynb", as_version=4)
TEXT = "\n".join(cell.source for cell in PAGE.cells if cell.cell_type == "markdown")
SCRIPT = SCRIPTS / "pipeline.py"
BODY = SCRIPT.read_text(encoding="utf-8").split('"""', 2)[2].strip("\n")


def test_the_script_on_the_page_is_the_file():
    fences = re.findall(r"^```python\n(.*?)\n```$", TEXT, re.MULTILINE | re.DOTALL)
    assert fences == [BODY]


def test_each_numbered_line_is_explained():
    numbered = list(dict.fromkeys(re.findall(r"  # (\d+)$", BODY, re.MULTILINE)))
    explained = re.findall(r"^(\d+)\. ", TEXT.partition("```\n")[2], re.MULTILINE)
    assert numbered == explained == [str(n + 1) for n in range(8)]


@pytest.fixture(scope="module")
def one_process():
    return losses_and_norms(torchrun_command(SCRIPT, "--cpu", nproc_per_node=1))


SIMULATED = [sys.executable, "-m", "simgpu", "run", "--gpu", "h100", "--nproc-per-node"]


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(
            torchrun_command(SCRIPT, "--cpu", nproc_per_node=2), marks=pytest.mark.exhaustive
        ),
        pytest.param(
            [*SIMULATED, "2", str(SCRIPT)], marks=pytest.mark.exhaustive
        ),  # so does the page
        [*SIMULATED, "8", str(SCRIPT), "--schedule", "GPipe", "--micro-batches", "4"],
    ],
    ids=["2 on gloo", "2 simulated", "8 simulated"],
)
def test_stages_train_as_one_process_does(command, one_process):
    losses, norms = one_process[::2], one_process[1::2]
    assert len(losses) == 8
    assert losses[-1] < losses[0] - 0.2
    assert min(norms) < 0.2 < max(norms), "clipping is tried, and so is a small gradient"
    assert losses_and_norms(command) == pytest.approx(one_process, abs=2e-5)


@pytest.mark.exhaustive
@pytest.mark.process
def test_clipping_by_stage_would_be_seen(one_process, tmp_path):
    wrong = tmp_path / "by_stage.py"
    source = SCRIPT.read_text(encoding="utf-8")
    assert source.count("    dist.all_reduce(square)  # 5\n") == 1
    wrong.write_text(source.replace("    dist.all_reduce(square)  # 5\n", ""))
    got = losses_and_norms(torchrun_command(wrong, "--cpu", nproc_per_node=2))
    assert max(abs(a - b) for a, b in zip(got, one_process, strict=True)) > 1e-3

"""The functions with mistakes from public reports, as exercises show them, are refused by name."""

import importlib
import re
from functools import partial

import nbformat
import pytest
import torch
import torch.distributed as dist
from support.paths import ROOT
from support.samples.solutions import refuses
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

REPORTS = {  # report -> chapter, and the module of its checkers
    "accelerate#2926": ("overlap-and-scaling", "overlap"),
    "accelerate#3897": ("memory-and-sharding", "sharding"),
    "accelerate#3979": ("memory-and-sharding", "sharding"),
    "accelerate#4071": ("multiple-gpus-concise", "concise"),
    "Automodel#3157": ("long-sequences", "long_sequences"),
    "DeepSpeed#5066": ("experts", "experts"),
    "pytorch#77562": ("collectives", "collectives"),
    "ROCm/Megatron-LM#63": ("tensor-parallelism", "tensor_parallel"),
}
IMPORTED = {
    "F": functional,
    "checkpoint": checkpoint,
    "dist": dist,
    "fully_shard": fully_shard,
    "partial": partial,
    "torch": torch,
}


def shown(report, chapter):
    """Return the name of the function that the exercise on a report shows, and its code."""
    cells = nbformat.read(ROOT / "chapters" / f"{chapter}.ipynb", as_version=4).cells
    about = [cell.source for cell in cells if f"[{report}](" in cell.source]
    (exercise,) = (source for source in about if "```python" in source)
    code = re.search(r"^```python\n(.*?)^```$", exercise, re.MULTILINE | re.DOTALL)[1]
    return re.match(r"def (\w+)", code)[1], code


@pytest.mark.parametrize("report", REPORTS)
def test_what_the_exercise_shows_has_the_mistake_of_the_report(report):
    chapter, module = REPORTS[report]
    name, code = shown(report, chapter)
    assert 3 <= len(code.splitlines()) <= 25
    found = dict(IMPORTED)
    exec(code, found)
    checks = importlib.import_module(f"d2lmini.checks.{module}")
    refuses(getattr(checks, f"check_{name}"), found[name], f"That is {report}: ")

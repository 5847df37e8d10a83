"""Checkers of a model that is sharded, and of the all-gathers that it then needs."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule

import simgpu as sim
from d2lmini.checks.shared.results import describe, whole_number
from d2lmini.checks.shared.solution import checker


class _Model(nn.Module):
    """A model of blocks, with parameters outside them."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.head = nn.Linear(8, 4)

    def forward(self, X):
        for block in self.blocks:
            X = block(X).relu()
        return self.head(X)


@checker("prepare(model, make_optimizer)", may_change=("model",))
def check_prepare(prepare):
    """Check a function that shards a model and makes its optimizer.

    Parameters
    ----------
    prepare : callable
        ``prepare(model, make_optimizer)``, called on every rank; the model has a list
        ``model.blocks`` and other parameters. It returns ``make_optimizer(parameters)`` of the
        sharded parameters.

    Raises
    ------
    AssertionError
        If blocks or the root are not sharded, or the optimizer has other parameters.
    """

    def run(rank):
        dist.init_process_group()
        torch.manual_seed(0)
        model = _Model().to(torch.accelerator.current_accelerator())
        optimizer = prepare(model, lambda ps: torch.optim.AdamW(ps, lr=0.1))
        _check_prepared(model, optimizer)
        dist.destroy_process_group()

    with prepare.running():
        sim.spawn(run, nprocs=2)
    print("prepare: passed")


def _check_prepared(model, optimizer):
    assert isinstance(optimizer, torch.optim.Optimizer), (
        f"prepare must return the optimizer, but it returned {describe(optimizer)}"
    )
    blocks = [isinstance(block, FSDPModule) for block in model.blocks]
    root = isinstance(model, FSDPModule)
    assert root or any(blocks), "nothing is sharded: call fully_shard"
    assert any(blocks), (
        "only the root is sharded: it gathers all weights at once, so that the peak is nearly as "
        "high as with DDP; call fully_shard on every block first"
    )
    assert all(blocks), f"{blocks.count(False)} of the {len(blocks)} blocks are not sharded"
    assert root, "the root is not sharded: the parameters outside the blocks stay whole"
    groups = optimizer.param_groups
    held = {id(p) for group in groups for p in group["params"]}
    own = {id(p) for p in model.parameters()}
    assert held & own, (
        "the optimizer has the parameters from before fully_shard, so that its steps change "
        "nothing in the model; make it afterwards"
    )
    assert held == own, "the optimizer must have all parameters of the sharded model"


# Blocks, and reshard_after_forward of the blocks and of the root.
RESHARD = [
    (num_blocks, blocks, root)
    for num_blocks in (3, 1, 24)
    for blocks in (None, True, False)
    for root in (None, False, True)
]


@checker("count_gathers(num_blocks, blocks, root)")
def check_count_gathers(count_gathers):
    """Check a function that counts the all-gathers of a training step under `fully_shard`.

    Parameters
    ----------
    count_gathers : callable
        ``count_gathers(num_blocks, blocks, root)``, where `blocks` and `root` are
        ``reshard_after_forward`` of the blocks and of the root, which has parameters of its own:
        True, False, or None for the default.

    Raises
    ------
    AssertionError
        If it returns another number; the message names the usual mistakes.
    """
    for num_blocks, blocks, root in RESHARD:
        where = f"{num_blocks} blocks, reshard_after_forward {blocks}, {root} for the root"
        got = count_gathers.at(where)(num_blocks, blocks, root)
        got = whole_number(got, f"{where}: what count_gathers returns")
        again = num_blocks * (blocks is not False) + (root is True)
        right = num_blocks + 1 + again
        if got != right:
            hint = _hint_for_gathers(got, num_blocks, blocks, root, again)
            raise AssertionError(f"{where}: count_gathers returned {got}, not {right}{hint}")
    print("count_gathers: passed")


def _hint_for_gathers(got, num_blocks, blocks, root, again):
    if got == num_blocks + again:
        return "; the root's own parameters are gathered, too"
    if root is None and got == num_blocks + 1 + again + 1:
        return "; by default the root keeps its weights, since its backward pass comes first"
    if root is not None and got == num_blocks + 1 + num_blocks * root + root:
        return "; what is set on the root counts for the root alone, not for the blocks"
    if blocks is None and got == num_blocks + 1 + (root is True):
        return "; by default blocks are resharded, and gathered again"
    return ""

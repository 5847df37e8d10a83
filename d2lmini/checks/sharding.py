"""Checkers for the exercises of the chapter on memory and sharding."""

import math

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule

import simgpu as sim
from d2lmini.checks.shared.results import describe, number, whole_number
from d2lmini.checks.shared.solution import checker

# Parameters, GPUs, bytes available for states on each.
SIZES = (
    (7_000_000_000, 8, 60_000_000_000),
    (7_000_000_000, 8, 40_000_000_000),
    (7_000_000_000, 8, 30_000_000_000),
    (7_000_000_000, 8, 14_000_000_000),
    (7_000_000_000, 8, 13_999_999_999),
    (1_000, 2, 16_000),
    (1_000, 2, 10_000),
    (1_000, 2, 9_999),
    (1_000, 2, 8_000),
    (1_000, 1, 15_999),
)


@checker("choose_stage(num_parameters, num_gpus, num_bytes)")
def check_choose_stage(choose_stage):
    """Check a function that chooses the lowest stage of ZeRO whose states fit.

    Parameters
    ----------
    choose_stage : callable
        ``choose_stage(num_parameters, num_gpus, num_bytes)``, returning 0 (DDP), 1, 2, 3, or None
        if not even stage 3 fits into `num_bytes` on each GPU.

    Raises
    ------
    AssertionError
        If another stage is returned; the message says why it is wrong.
    """
    for size, n, room in SIZES:
        where = f"{size} parameters, {n} GPUs, {room} bytes on each"
        needed = states(size, n)
        right = next((stage for stage, b in enumerate(needed) if b <= room), None)
        got = choose_stage.at(where)(size, n, room)
        if got is not None:
            got = whole_number(got, f"{where}: the stage that choose_stage returns")
        assert got is None or 0 <= got <= 3, f"{where}: there is no stage {got}"
        if got == right:
            continue
        if got is None:
            raise AssertionError(f"{where}: stage {right} fits, it needs {needed[right]:.0f} bytes")
        assert needed[got] <= room, f"{where}: stage {got} needs {needed[got]:.0f} bytes"
        raise AssertionError(f"{where}: stage {got} fits, but stage {right} does, too")
    print("choose_stage: passed")


def states(size, n):
    """Return the bytes of states on each of n GPUs, for DDP and the three stages of ZeRO."""
    return [size * per for per in (16, 4 + 12 / n, 2 + 14 / n, 16 / n)]


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


# Norms of each rank's gradients: one list per replica, with one norm per shard.
NORMS = (
    [[3.0, 4.0]],
    [[0.8], [0.8]],
    [[3.0, 4.0, 12.0], [3.0, 4.0, 12.0]],
    [[0.0, 2.0], [0.0, 2.0], [0.0, 2.0]],
)


@checker("global_norm(norms)")
def check_global_norm(global_norm):
    """Check a function that combines the norms of shards.

    Parameters
    ----------
    global_norm : callable
        ``global_norm(norms)``, returning the norm of all gradients. `norms` has one list per
        replica, with the norm of the gradients of each of its shards; all replicas hold the same
        gradients.

    Raises
    ------
    AssertionError
        If it returns another norm; the message names the usual mistakes.
    """
    for norms in NORMS:
        where = f"norms of {norms}"
        got = global_norm.at(where)([list(row) for row in norms])
        got = number(got, f"{where}: what global_norm returns")
        right = math.hypot(*norms[0])
        if math.isclose(got, right, rel_tol=1e-6):
            continue
        hint = ""
        if math.isclose(got, math.hypot(*(x for row in norms for x in row)), rel_tol=1e-6):
            hint = (
                "; that counts each gradient once for every replica that holds it, and clips "
                f"by a norm that is {math.sqrt(len(norms)):.3f} times too large"
            )
        elif math.isclose(got, sum(norms[0]), rel_tol=1e-6):
            hint = "; norms do not add up, their squares do"
        raise AssertionError(f"{where}: global_norm returned {got:.6g}, not {right:.6g}{hint}")
    print("global_norm: passed")


@checker("loss_weight(tokens, rank)")
def check_loss_weight(loss_weight):
    """Check the factor by which a rank multiplies its mean loss.

    Parameters
    ----------
    loss_weight : callable
        ``loss_weight(tokens, rank)``, where `tokens` has the number of tokens on each rank. The
        gradients, averaged over ranks afterwards, must be those of the mean over all tokens.

    Raises
    ------
    AssertionError
        If they are not; the message names the usual mistakes.
    """
    for tokens in ([5, 5], [1, 3], [10, 0, 2], [7, 9, 1, 3]):
        where, n = f"tokens {tokens}", len(tokens)
        weights = [
            number(
                loss_weight.at(where)(list(tokens), rank),
                f"{where}: what loss_weight returns on rank {rank}",
            )
            for rank in range(n)
        ]
        right = [n * count / sum(tokens) for count in tokens]
        if _close(weights, right):
            continue
        hint = "the weights must be in proportion to the tokens"
        if _close(weights, [1] * n):
            hint = "that is the mean of the ranks' means: a token on a rank with few counts more"
        elif _close(weights, [w / n for w in right]):
            hint = f"the gradients are divided by the {n} ranks once more, when they are averaged"
        raise AssertionError(f"{where}: weights {weights}, not {right}; {hint}")
    print("loss_weight: passed")


def _close(a, b):
    return all(math.isclose(x, y, rel_tol=1e-6, abs_tol=1e-9) for x, y in zip(a, b, strict=True))


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

"""The checkers of the chapter on sharding accept right solutions and name what is wrong."""

import math
from functools import partial

import pytest
import torch
import torch.distributed as dist
from support.samples.solutions import make_tests, returns_nothing
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
)
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

from d2lmini import sim
from d2lmini.checks import sharding as checks
from d2lmini.checks.sharding.models import _Model

RIGHT, WRONG = {}, {}


def choose_stage(num_parameters, num_gpus, num_bytes):
    per = 16, 4 + 12 / num_gpus, 2 + 14 / num_gpus, 16 / num_gpus
    fits = [stage for stage, value in enumerate(per) if value * num_parameters <= num_bytes]
    return fits[0] if fits else None


def prepare(model, make_optimizer):
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return make_optimizer(model.parameters())


def only_the_root(model, make_optimizer):
    fully_shard(model)
    return make_optimizer(model.parameters())


def no_root(model, make_optimizer):
    for block in model.blocks:
        fully_shard(block)
    return make_optimizer(model.parameters())


def one_block_left(model, make_optimizer):
    for block in model.blocks[1:]:
        fully_shard(block)
    fully_shard(model)
    return make_optimizer(model.parameters())


def optimizer_first(model, make_optimizer):
    optimizer = make_optimizer(model.parameters())
    prepare(model, make_optimizer)
    return optimizer


def some_parameters(model, make_optimizer):
    prepare(model, make_optimizer)
    return make_optimizer(model.head.parameters())


def global_norm(norms):
    return math.hypot(*norms[0])


def over_all_ranks(norms):
    return math.hypot(*(norm for row in norms for norm in row))


def loss_weight(tokens, rank):
    return len(tokens) * tokens[rank] / sum(tokens)


def count_gathers(num_blocks, blocks, root):
    return num_blocks + 1 + num_blocks * (blocks is not False) + (root is True)


RIGHT["choose_stage"] = choose_stage
WRONG["choose_stage"] = {
    "stage 1 fits, it needs": returns_nothing,
    r"stage 3 fits, but stage 1": lambda p, n, b: 3,
    "stage 0 needs": lambda p, n, b: 0,
    "there is no stage 4": lambda p, n, b: 4,
    "must be a whole number": lambda p, n, b: 1.5,
    "stage 3 fits, it needs": lambda p, n, b: choose_stage(p, n, b - 1),
}

RIGHT["prepare"] = prepare
WRONG["prepare"] = {
    "must return the optimizer.*None": returns_nothing,
    "nothing is sharded": lambda model, make: make(model.parameters()),
    "only the root is sharded": only_the_root,
    "the root is not sharded": no_root,
    "1 of the 3 blocks": one_block_left,
    "from before fully_shard": optimizer_first,
    "must have all parameters": some_parameters,
}

RIGHT["global_norm"] = global_norm
WRONG["global_norm"] = {
    "once for every replica.*1.414": over_all_ranks,
    "their squares do": lambda n: sum(n[0]),
    "must be a number": returns_nothing,
    "returned 12, not 13": lambda n: (
        max(n[0]) if n[0][0] == 3 < n[0][-1] and len(n[0]) == 3 else global_norm(n)
    ),
}

RIGHT["loss_weight"] = loss_weight
WRONG["loss_weight"] = {
    "mean of the ranks' means": lambda tokens, rank: 1.0,
    "divided by the 2 ranks once more": lambda t, rank: t[rank] / sum(t),
    "in proportion": lambda t, rank: sum(t) / max(1, t[rank]) / len(t) * 2,
    "must be a number": returns_nothing,
}

RIGHT["count_gathers"] = count_gathers
WRONG["count_gathers"] = {
    "root's own parameters": lambda n, b, r: count_gathers(n, b, r) - 1,
    "by default the root keeps": lambda n, b, r: count_gathers(n, b, r is not False),
    "for the root alone": lambda n, b, r: count_gathers(n, r, r),
    "by default blocks are": lambda n, b, r: count_gathers(n, b is True, r),
    "returned 8, not 7": lambda n, b, r: (
        2 * (n + 1) if r is False and b else count_gathers(n, b, r)
    ),
    "must be a number": returns_nothing,
}


LARGEST = torch.finfo(torch.float16).max


def loss_scale(gradients):
    """The largest power of two, by halving and doubling."""
    largest, scale = max(g.abs().max().item() for g in gradients), 1.0
    while largest * scale > LARGEST:
        scale /= 2
    while 2 * largest * scale <= LARGEST:
        scale *= 2
    return scale


def scale_of(largest):
    """Choose a scale from what is taken for the largest gradient."""
    return 2.0 ** math.floor(math.log2(LARGEST / largest))


RIGHT["loss_scale"] = loss_scale, lambda g: torch.tensor(loss_scale(g))
WRONG["loss_scale"] = {
    "is not a power of two": lambda g: LARGEST / max(x.abs().max().item() for x in g),
    "becomes infinite in float16": lambda g: 2 * loss_scale(g),
    "becomes infinite": (
        lambda g: scale_of(g[0].abs().max().item()),  # the first layer alone
        lambda g: scale_of(max(x.abs().mean().item() for x in g)),
        lambda g: max(loss_scale(g), 1.0),  # never makes them smaller
    ),
    "absolute values": lambda g: scale_of(max(x.max().item() for x in g)),
    "is not the largest scale": lambda g: 2.0**16,  # a constant
    "with the larger one fewer gradients become 0": lambda g: loss_scale(g) / 2,
    "not the large": lambda g: 2.0 ** math.ceil(math.log2(1 / max(x.abs().max() for x in g))),
    "not the largest": lambda g: 1.0,  # as for bfloat16
    "a scale is a positive number": (
        lambda g: 0.0,
        lambda g: math.inf,
    ),
    "must be a number, but it is None": returns_nothing,
    "must be a number, but it is a list of 1": lambda g: [loss_scale(g)],
}


def gathered(rank, model_class, blocks, root):
    dist.init_process_group()
    model = model_class().to(torch.accelerator.current_accelerator())
    for block in model.blocks:
        fully_shard(block, reshard_after_forward=blocks)
    fully_shard(model, reshard_after_forward=root)
    model(torch.ones(2, 8, device=torch.accelerator.current_accelerator())).sum().backward()


@pytest.mark.parametrize("blocks", [None, True, False])
@pytest.mark.parametrize("root", [None, True, False])
def test_the_count_of_gathers_is_that_of_a_step(blocks, root):
    sim.spawn(gathered, (_Model, blocks, root), nprocs=2)
    calls = [s for s in sim.trace() if (s.engine, s.name) == ("comm", "all_gather")]
    assert len(calls) == 2 * count_gathers(3, blocks, root)


def recompute(module):
    module.forward = partial(checkpoint, module.forward, use_reentrant=False)


def recompute_where(model, matches):
    for module in model.modules():
        if matches(module):
            recompute(module)


def recompute_by_wrapping(model, matches):
    apply_activation_checkpointing(model, check_fn=matches)


def recompute_children(model, matches):
    for parent in model.modules():
        for child in parent.children():
            if matches(parent):
                recompute(child)


def recompute_both(model, matches):
    recompute_children(model, matches)
    recompute_where(model, matches)


def recompute_leaves(model, matches):
    recompute_where(model, lambda module: not list(module.children()))


def recompute_without_gradients(model, matches):
    for module in model.modules():
        if matches(module):
            again = partial(checkpoint, module.forward, use_reentrant=False)
            module.forward = lambda X, again=again: again(X.detach())


RIGHT["recompute_where"] = recompute_where, recompute_by_wrapping
WRONG["recompute_where"] = {
    r"keeps 4\.0 tensors .* That is accelerate#3897: .* Wrap the module itself": recompute_children,
    "40 products .* instead of 32": recompute_both,
    "nothing is computed again": lambda model, matches: None,
    "not computed again as a whole": recompute_leaves,
    "in one piece, and in the backward pass": (
        lambda model, matches: recompute(model),
        lambda model, matches: [recompute(stage) for stage in model],
    ),
    "the gradients are others": recompute_without_gradients,
    "recompute_where raised AttributeError": lambda model, matches: [
        recompute(block) for block in model.blocks
    ],
}


def shard(model, policy):
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)


def shard_in_float32(model, policy):
    for parameter in model.parameters():
        parameter.data = parameter.data.float()
    shard(model, policy)


def shard_with_new_names(model, policy):
    for parameter in model.parameters():
        parameter = parameter.float()
    shard(model, policy)


def shard_without_policy(model, policy):
    shard(model.float(), MixedPrecisionPolicy())


def shard_blocks_in_float32(model, policy):
    model.blocks.float()
    shard(model, policy)


def shard_other_weights(model, policy):
    for parameter in model.parameters():
        parameter.data = torch.zeros(parameter.shape, device=parameter.device)
    shard(model, policy)


RIGHT["shard_in_float32"] = shard_in_float32, lambda model, policy: shard(model.float(), policy)
WRONG["shard_in_float32"] = {
    "607 of 612 weights as they were. That is accelerate#3979": shard_with_new_names,
    "layers compute in float32": shard_without_policy,
    "2 of 6 parameters are not float32": shard_blocks_in_float32,
    "call fully_shard on every block": (
        lambda model, policy: model.float(),
        lambda model, policy: fully_shard(model.float(), mp_policy=policy),
    ),
    "not those that the model was given": shard_other_weights,
}


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)

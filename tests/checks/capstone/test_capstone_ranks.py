"""The checkers of the capstone's step on ranks, and of its faults."""

import itertools

import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional as F

from d2lmini.checks import capstone as checks
from d2lmini.checks.capstone.faults import KINDS, RANKS, ROUNDS, Fault, draw_faults, run_with

NAMES = [f"reader {i}" for i in range(40)]


def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def split(model, mesh):
    plan = {"blocks.*.up": ColwiseParallel(), "blocks.*.down": RowwiseParallel()}
    parallelize_module(model, mesh["tp"], plan)


def own(tensor, mesh):
    dp = mesh["dp"]
    return tensor.chunk(dp.size())[dp.get_local_rank()]


def gradients_of(model):
    return {name: local(p.grad) for name, p in model.named_parameters()}


def summed(tensors, group):
    for tensor in tensors:
        dist.all_reduce(tensor, group=group)


def train(model, x, y, mesh, divide=lambda total, y, mesh: total / (y >= 0).sum(), sums=True,
          is_split=True, parts=True, group=None):  # fmt: skip
    if is_split:
        split(model, mesh)
    mine = (own(x, mesh), own(y, mesh)) if parts else (x, y)
    loss = divide(F.cross_entropy(model(mine[0]), mine[1], reduction="sum"), y, mesh)
    loss.backward()
    loss, gradients = loss.detach(), gradients_of(model)
    if parts:
        chosen = mesh["dp"].get_group() if group is None else group
        summed((loss, *(gradients.values() if sums else ())), chosen)
    return loss, gradients


def mean_of_means(total, y, mesh):
    return total / (own(y, mesh) >= 0).sum() / mesh["dp"].size()


def over_all_ranks(model, x, y, mesh):
    return train(model, x, y, mesh, group=dist.group.WORLD)


def only_own(model, x, y, mesh):
    split(model, mesh)
    loss = F.cross_entropy(model(own(x, mesh)), own(y, mesh))
    loss.backward()
    return loss, gradients_of(model)


def bias_twice(model, x, y, mesh):
    for block in model.blocks:
        down = block.down
        down.forward = lambda h, down=down: F.linear(h, down.weight, 2 * down.bias)
    return train(model, x, y, mesh, is_split=False)


def gradients_twice(model, x, y, mesh):
    loss, gradients = train(model, x, y, mesh)
    summed(gradients.values(), mesh["dp"].get_group())
    return loss, gradients


def averaged(model, x, y, mesh):
    loss, gradients = train(model, x, y, mesh)
    return loss, {name: g / mesh["dp"].size() for name, g in gradients.items()}


def one_is_missing(model, x, y, mesh):
    loss, gradients = train(model, x, y, mesh)
    del gradients["head.bias"]
    return loss, gradients


def another_shape(model, x, y, mesh):
    loss, gradients = train(model, x, y, mesh)
    return loss, gradients | {"head.bias": torch.zeros(1)}


WRONG = {
    "That is the mean of 4 means": lambda *args: train(*args, divide=mean_of_means),
    "That is the sum over all targets": lambda *a: train(*a, divide=lambda t, y, mesh: t),
    "You divide by all targets": lambda *a: train(*a, divide=lambda t, y, mesh: t / len(y)),
    "That is tp times the loss": over_all_ranks,
    "That is the mean over this rank's part": only_own,
    "Compare the logits first": bias_twice,
    "It is dp times too large": gradients_twice,
    "It is dp times too small": averaged,
    "Is it summed over dp": lambda *args: train(*args, sums=False),
    "Each rank goes through all of the batch": lambda *args: train(*args, parts=False),
    "The layers `up` and `down` are whole": lambda *args: train(*args, is_split=False),
    "there is no gradient of head.bias": one_is_missing,
    "the whole one is of shape (6,)": another_shape,
    "a dictionary is needed": lambda *args: (train(*args)[0], []),
    "must be a number": lambda *args: (None, {}),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", ["example", *NAMES[:2]])
def test_a_step_that_is_right_passes(seed, capsys):
    checks.check_train(train, seed)
    assert capsys.readouterr().out == "train: passed\n"


@pytest.mark.sample(4)
@pytest.mark.slow
@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_step_is_explained(message):
    with pytest.raises(AssertionError) as caught:
        checks.check_train(WRONG[message], "example")
    assert message in str(caught.value)
    assert "4 data x 2 tensor parallel ranks" in str(caught.value)


def test_a_step_without_dtensors_passes(capsys):
    def by_hand(model, x, y, mesh):
        class Same(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.view_as(x)

            @staticmethod
            def backward(ctx, gradient):
                gradient = gradient.clone()
                dist.all_reduce(gradient, group=tp.get_group())
                return gradient

        class Add(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                x = x.clone()
                dist.all_reduce(x, group=tp.get_group())
                return x

            @staticmethod
            def backward(ctx, gradient):
                return gradient

        tp = mesh["tp"]
        for block in model.blocks:
            up, down = block.up, block.down
            for layer, name, dim in (up, "weight", 0), (up, "bias", 0), (down, "weight", 1):
                whole = getattr(layer, name).detach()
                part = whole.chunk(tp.size(), dim)[tp.get_local_rank()].clone()
                setattr(layer, name, torch.nn.Parameter(part))
            up.forward = lambda h, up=up: F.linear(Same.apply(h), up.weight, up.bias)
            down.forward = lambda h, down=down: Add.apply(F.linear(h, down.weight)) + down.bias
        return train(model, x, y, mesh, is_split=False)

    checks.check_train(by_hand, "example")
    assert capsys.readouterr().out == "train: passed\n"


def test_parts_of_the_batch_have_different_numbers_of_targets_that_count():
    """Else a mean of means would pass."""
    tasks = [checks.draw_task(name) for name in NAMES]
    assert {(task.dp, task.tp) for task in tasks} == {(2, 2), (4, 2), (2, 4)}
    for task in tasks:
        _, y = task.data()
        counts = {int((part >= 0).sum()) for part in y.chunk(task.dp)}
        assert len(counts) > 1
        assert min(counts) > 0


def rank_of(span):
    return int(span.device.split()[1])


def busy(run, wanted):
    found = [0.0] * RANKS
    for span in run.spans:
        if wanted in (span.engine, span.group):
            found[rank_of(span)] += span.duration
    return found


def out_of_step(run):
    order = [f"mesh_{name}" for name in ROUNDS]
    for rank in range(RANKS):
        rounds = [s.group for s in run.spans if s.group and rank_of(s) == rank]
        if any(name != order[i % 3] for i, name in enumerate(rounds)):
            return rank
    raise AssertionError("all ranks keep the order")


def diagnose(run):
    """Find the fault from what a run shows alone."""
    if not run.ended:
        return out_of_step(run), "skipped sum"
    kernels = busy(run, "compute")
    if max(kernels) > 1.2 * min(kernels):
        return kernels.index(max(kernels)), "slow GPU"
    pairs = [busy(run, "mesh_near"), busy(run, "mesh_far")]
    if max(pairs[0]) > 1.2 * min(pairs[0]):
        both = [near + far for near, far in zip(*pairs, strict=True)]
        return both.index(max(both)), "slow card"
    norms = sorted((row["norm"], row["rank"]) for row in run.log[:RANKS])
    return norms[-1 if norms[-1][0] > 2 * norms[4][0] else 0][1], "wrong scale"


EXAMPLE = {"ABCDE"[i]: (fault.rank, fault.kind) for i, fault in enumerate(draw_faults("example"))}


@pytest.mark.long
@pytest.mark.parametrize(
    "seed", ["example", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in NAMES[:2])]
)
def test_faults_can_be_found_from_what_is_seen(seed, capsys):
    checks.check_diagnose(diagnose, seed)
    assert capsys.readouterr().out == "diagnose: passed\n"


def test_names_give_all_faults_on_different_ranks():
    drawn = [draw_faults(name) for name in NAMES]
    assert drawn == [draw_faults(name) for name in NAMES]
    for faults in drawn:
        assert {fault.kind for fault in faults} == set(KINDS)
        assert len({fault.rank for fault in faults}) == len(faults)
    first = {(faults[0].kind, faults[0].rank) for faults in drawn}
    assert len(first) > 15


@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
def test_every_fault_on_every_rank_can_be_found():
    faults = [
        Fault("skipped sum", rank, at=(0, i, name))
        for rank, i, name in itertools.product(range(RANKS), range(4), ROUNDS)
    ]
    factors = {"slow GPU": (2.0, 3.0), "slow card": (3.0, 6.0), "wrong scale": (8, 1 / 8)}
    for kind, both in factors.items():
        faults += [Fault(kind, rank, f) for rank, f in itertools.product(range(RANKS), both)]
    wrong = [fault for fault in faults if diagnose(run_with(fault)) != (fault.rank, fault.kind)]
    assert wrong == []


def but(kind, wrong):
    """Return a diagnosis that is right, except for the runs with a fault."""
    return lambda run: wrong(run) if EXAMPLE[run.name][1] == kind else EXAMPLE[run.name]


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        ("slow GPU", lambda run: (EXAMPLE[run.name][0] ^ 1, "slow GPU"), "compare how long"),
        ("slow GPU", lambda run: (0, "slow card"), "The rounds near and far take as long on all"),
        ("slow GPU", lambda run: (0, "wrong scale"), "All ranks wrote norms of the same size"),
        ("slow GPU", lambda run: (0, "skipped sum"), "this job came to its end"),
        ("slow card", lambda run: (EXAMPLE[run.name][0] ^ 2, "slow card"), "Its round near is"),
        ("slow card", lambda run: (EXAMPLE[run.name][0] ^ 4, "slow card"), "Its round far is"),
        ("slow card", lambda run: (0, "slow GPU"), "Kernels of the same name take the same time"),
        ("skipped sum", lambda run: (0, "slow GPU"), "This job hung"),
        ("skipped sum", lambda run: (EXAMPLE[run.name][0] ^ 2, "skipped sum"), "which of the two"),
        ("skipped sum", lambda run: (EXAMPLE[run.name][0] ^ 7, "skipped sum"), "list the rounds"),
        ("wrong scale", lambda run: (EXAMPLE[run.name][0] ^ 1, "wrong scale"), "compare the norms"),
        ("wrong scale", lambda run: (8, "wrong scale"), "there is no rank 8; give one from 0 to 7"),
        ("wrong scale", lambda run: (0, "gremlins"), "'gremlins' is none of the faults slow GPU"),
        ("wrong scale", lambda run: (0, 1), "the fault must be a name"),
        ("wrong scale", lambda run: 3, "a list of 2 is needed"),
    ],
)  # fmt: skip
def test_a_wrong_diagnosis_is_told_where_to_look(kind, wrong, message):
    with pytest.raises(AssertionError) as caught:
        checks.check_diagnose(but(kind, wrong), "example")
    assert message in str(caught.value)


def test_a_run_that_is_changed_does_not_change_the_next():
    before = checks.healthy_run()
    before.log.clear()
    assert len(checks.healthy_run().log) == 2 * RANKS
    assert checks.healthy_run().ended

"""The checkers of the chapter on meshes accept right solutions and name mistakes."""

import math

import torch
import torch.distributed as dist
from support.samples.solutions import make_tests, returns_nothing

from d2lmini.checks import putting_it_together as checks
from d2lmini.checks.putting_it_together.groups import members

RIGHT, WRONG = {}, {}


def by_stride(rank, sizes, axis):
    names = list(sizes)
    stride = math.prod(sizes[name] for name in names[names.index(axis) + 1 :])
    first = rank - rank // stride % sizes[axis] * stride
    return [first + i * stride for i in range(sizes[axis])]


def first_is_nearest(rank, sizes, axis):
    return by_stride(rank, dict(reversed(sizes.items())), axis)


RIGHT["group_of"] = by_stride, members
WRONG["group_of"] = {
    "if the first axis were the nearest": first_is_nearest,
    "The rank itself": lambda r, s, a: [i for i in by_stride(r, s, a) if i != r],
    "Sort it": lambda r, s, a: by_stride(r, s, a)[::-1],
    "has 4 ranks": lambda r, s, a: [r],
    "depends on the rank": lambda r, s, a: by_stride(0, s, a),
    "other coordinates": lambda r, s, a: [r + i for i in range(s[a])],
    "a list is needed": returns_nothing,
}


def shown_loss(own, mesh, divide=("tensor",)):
    loss = own / math.prod(mesh[axis].size() for axis in divide)
    dist.all_reduce(loss)
    return loss


def along(axes):
    def show(own, mesh):
        for axis in axes:
            dist.all_reduce(own, group=mesh.get_group(axis))
        return own

    return show


def mean_over_all(own, mesh):
    dist.all_reduce(own)
    return own / dist.get_world_size()


RIGHT["shown_loss"] = shown_loss, along(("replicate", "shard", "context"))
WRONG["shown_loss"] = {
    "ranks that share tensors have copies": lambda own, mesh: shown_loss(own, mesh, ()),
    "The parts have to be added": (
        mean_over_all,
        lambda own, mesh: shown_loss(own, mesh, ("tensor", "context")),
    ),
    "all ranks need the same number": (lambda own, mesh: own, along(("replicate", "shard"))),
    "must be a number": returns_nothing,
}


def zero():
    device = torch.accelerator.current_accelerator()
    return torch.zeros((), dtype=torch.float64, device=device)


def loss_everywhere(own, mesh):
    loss = (zero() if own is None else own) / mesh["tensor"].size()
    dist.all_reduce(loss)
    return loss


def sends_to_stages(own, mesh):
    loss = zero() if own is None else own
    dist.all_reduce(loss, group=mesh.get_group("shard"))
    dist.all_reduce(loss, group=mesh.get_group("pipeline"))
    return loss


def not_divided(own, mesh):
    loss = zero() if own is None else own
    dist.all_reduce(loss)
    return loss


def only_on_the_last(own, mesh):
    if own is None:
        return None
    dist.all_reduce(own, group=mesh.get_group("shard"))
    return own


def waits_for_all(own, mesh):
    if own is not None:
        dist.all_reduce(own)
    return own


def zeros_elsewhere(own, mesh):
    return zero() if own is None else own


RIGHT["loss_everywhere"] = loss_everywhere, sends_to_stages
WRONG["loss_everywhere"] = {
    "have copies of the same part": not_divided,
    "None .*a tensor, is needed on all stages": only_on_the_last,
    "raised": (shown_loss, waits_for_all),
    "all ranks need the same number": zeros_elsewhere,
    "is needed on all stages": returns_nothing,
}


def token_mean(losses, targets, mesh, keep=lambda targets: targets != -100):
    valid = keep(targets)
    both = torch.stack([losses[valid].sum(), valid.sum().to(losses.dtype)])
    dist.all_reduce(both)
    return both[0] / both[1]


def mean_of_means(losses, targets, mesh, empty=0.0):
    valid = targets != -100
    mean = losses[valid].mean() if valid.any() else losses.new_tensor(empty)
    both = torch.stack([mean, valid.any().to(losses.dtype)])
    dist.all_reduce(both)
    return both[0] / both[1]


def copies_in_one_sum(losses, targets, mesh):
    valid = targets != -100
    total, number = losses[valid].sum(), valid.sum()
    dist.all_reduce(total)
    dist.all_reduce(number)
    return total / number * mesh["tensor"].size()


def averaged_once_more(losses, targets, mesh, copies=False):
    valid = targets != -100
    count = valid.sum()
    dist.all_reduce(count)
    own = losses[valid].sum() / (count if copies else count / mesh["tensor"].size())
    dist.all_reduce(own, op=dist.ReduceOp.AVG)
    return own


RIGHT["token_mean"] = token_mean
WRONG["token_mean"] = {
    "That is transformers#37474: what is divided": (
        averaged_once_more,
        lambda *arguments: averaged_once_more(*arguments, copies=True),
    ),
    "mean of the ranks' means": mean_of_means,
    "has no mean": lambda x, y, mesh: mean_of_means(x, y, mesh, math.nan),
    "Padding counts, too": lambda x, y, mesh: token_mean(x, y, mesh, lambda y: y > -101),
    "copies are in one sum": copies_in_one_sum,
    "all ranks need the same number": lambda x, y, mesh: x[y != -100].mean(),
    "divide once": lambda x, y, mesh: token_mean(x, y, mesh) + 1,
    "must be a number": returns_nothing,
}


def mesh_norm(gradients, parts, mesh, over=None):
    total = 0
    for gradient, axes in zip(gradients, parts, strict=True):
        others = set(mesh.mesh_dim_names) - axes
        copies = math.prod(mesh[axis].size() for axis in others if over is None or axis in over)
        total = total + gradient.square().sum() / copies
    dist.all_reduce(total)
    return total.sqrt()


def of_one_stage(gradients, parts, mesh):
    total = 0
    for gradient, axes in zip(gradients, parts, strict=True):
        square = gradient.square().sum()
        for axis in axes - {"pipeline"}:
            dist.all_reduce(square, group=mesh.get_group(axis))
        total = total + square
    return total.sqrt()


def sums_norms(gradients, parts, mesh):
    total = sum(gradient.norm() for gradient in gradients)
    dist.all_reduce(total)
    return total


RIGHT["mesh_norm"] = mesh_norm
WRONG["mesh_norm"] = {
    "as often as there are ranks": lambda g, parts, mesh: mesh_norm(g, parts, mesh, ()),
    "is the same on 2 ranks": lambda g, parts, mesh: mesh_norm(g, parts, mesh, ("replicate",)),
    "its square": lambda g, parts, mesh: mesh_norm(g, parts, mesh) ** 2,
    "That is torchtitan#596: each stage has other layers": of_one_stage,
    "Add squares, not norms": sums_norms,
    "must be a number": returns_nothing,
}


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)

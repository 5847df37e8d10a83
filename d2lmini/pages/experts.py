"""The chapter on experts: layers on ranks against one GPU, their gradients, and their times."""

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import simgpu as sim
from d2lmini.pages.tensor_parallel import difference
from d2lmini.timing import Timer
from simgpu.timeline import Timeline


class Sizes(NamedTuple):
    """Features of a token, width of an expert, number of experts, and how many a token uses."""

    hidden: int
    width: int
    experts: int
    active: int


class Run(NamedTuple):
    """The simulated seconds of a pass on the slowest rank, and its timeline."""

    seconds: float
    timeline: Timeline


def draw(*shape, seed=0, dtype=torch.float32):
    """Return normal random numbers on the host, the same in every call with the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(dtype)


def make_weights(sizes, dtype=torch.float32):
    """Return a router and all experts on the host.

    Parameters
    ----------
    sizes : Sizes
    dtype : torch.dtype, optional

    Returns
    -------
    list of torch.Tensor
        The router, of shape (experts, hidden); gate and up side by side, of shape
        (experts, hidden, 2 * width); down, of shape (experts, width, hidden).
    """
    hidden, width, experts, _ = sizes
    router = draw(experts, hidden, seed=1, dtype=dtype) / hidden**0.5
    up = draw(experts, hidden, 2 * width, seed=2, dtype=dtype) / hidden**0.5
    down = draw(experts, width, hidden, seed=3, dtype=dtype) / width**0.5
    return [w.requires_grad_() for w in (router, up, down)]


def make_tokens(seed, tokens=1024, kinds=512, hidden=32):
    """Return random tokens as noisy vectors, and the vectors to which they are to be mapped.

    The n-th kind of token is n times rarer than the first, as in a text.

    Parameters
    ----------
    seed : int
    tokens, kinds, hidden : int
    """
    generator = torch.Generator().manual_seed(seed)
    rarity = 1 / torch.arange(1, kinds + 1)
    chosen = torch.multinomial(rarity, tokens, True, generator=generator)
    embedding, targets = (draw(kinds, hidden, seed=s, dtype=torch.float64) for s in (5, 6))
    noise = draw(tokens, hidden, seed=seed, dtype=torch.float64) / 3
    return embedding[chosen] + noise, targets[chosen]


def compare_with_one(layer, whole, sizes, nprocs=4, tokens=64):
    """Compare a layer on ranks with the whole one on the host, forward and backward.

    Parameters
    ----------
    layer : callable
        ``layer(x, weights, active)``, called on every rank with its tokens, the whole router, and
        its own experts; returns what becomes of the tokens.
    whole : callable
        The same for all tokens and all experts.
    sizes : Sizes
    nprocs, tokens : int

    Returns
    -------
    dict of str to float
        The largest relative difference over all ranks of the output, and of the gradients of the
        tokens, the router (summed over the ranks) and the experts (not summed).
    """

    def on_rank(rank):
        return _differences(rank, layer, whole, sizes, tokens)

    found = sim.spawn(on_rank, nprocs=nprocs)
    return {name: max(one[name] for one in found) for name in found[0]}


def _differences(rank, layer, whole, sizes, tokens=64):
    """Return what `compare_with_one` looks for, of one rank."""
    device, ranks = _join(), dist.get_world_size()
    x, weights = draw(tokens, sizes.hidden).requires_grad_(), make_weights(sizes)
    grad = draw(tokens, sizes.hidden, seed=4)
    y = whole(x, weights, sizes.active)
    y.backward(grad)
    own, own_x = _own(weights, rank, ranks, device), _part(x, rank, ranks, device)
    own_y = layer(own_x, own, sizes.active)
    own_y.backward(_part(grad, rank, ranks, device))
    dist.all_reduce(own[0].grad)
    rights = {"output": y, "tokens": x.grad, "up": weights[1].grad, "down": weights[2].grad}
    gots = {"output": own_y, "tokens": own_x.grad, "up": own[1].grad, "down": own[2].grad}
    found = {n: difference(_part(rights[n], rank, ranks, device), gots[n]) for n in rights}
    return found | {"router": difference(weights[0].grad, own[0].grad)}


def compare_average(layer, whole, average, sizes, ep, nprocs=4):
    """Compare averaged gradients on ranks with those of one process.

    Each rank's loss is a mean over its own tokens.

    Parameters
    ----------
    layer, whole : callable
        As in `compare_with_one`; `layer` is also given the group of ranks that share the experts.
    average : callable
        ``average(weights, replicas)``, called on every rank after the backward pass; averages the
        gradients in place. `replicas` is the group of ranks with the same experts.
    sizes : Sizes
    ep, nprocs : int
        Over how many ranks the experts are distributed; the number of all ranks.

    Returns
    -------
    float
        The norm of the experts' gradient, as a multiple of the right one.
    float
        The largest relative difference of any gradient on any rank.
    """

    def on_rank(rank):
        return _averaged(rank, layer, average, sizes, ep)

    rights = _mean_gradients(whole, sizes)
    off, experts = 0.0, []
    for rank, gots in enumerate(sim.spawn(on_rank, nprocs=nprocs)):
        experts += [gots[1]] if rank < ep else []
        parts = [rights[0], *(right.chunk(ep)[rank % ep] for right in rights[1:])]
        off = max(off, *map(difference, parts, gots))
    return (torch.cat(experts).norm() / rights[1].norm()).item(), off


def _averaged(rank, layer, average, sizes, ep):
    """Return the gradients that a rank has after the average."""
    device, ranks = _join(), dist.get_world_size()
    mesh = _mesh(device, ranks, ep)
    own = _own(make_weights(sizes), mesh["experts"].get_local_rank(), ep, device)
    x = _part(draw(64, sizes.hidden), rank, ranks, device)
    y = layer(x, own, sizes.active, mesh["experts"].get_group())
    y.square().sum(1).mean().backward()
    average(own, mesh["replicas"].get_group())
    return [w.grad.cpu() for w in own]


def _mean_gradients(whole, sizes):
    """Return the gradients of the mean loss over all tokens, in one process."""
    weights = make_weights(sizes)
    whole(draw(64, sizes.hidden), weights, sizes.active).square().sum(1).mean().backward()
    return [w.grad for w in weights]


def time_layer(
    layer, sizes, nprocs, tokens, ep=None, spread=False, load=None, nodes=None, backward=True
):
    """Time the second of two passes of a layer in bfloat16 on simulated H100s, without values.

    Parameters
    ----------
    layer : callable
        ``layer(x, weights, active, group, count)``: `count` takes the place of the layer's own
        function that counts how many copies each expert gets of those that a rank sends.
    sizes : Sizes
    nprocs, tokens : int
        The number of ranks, and of the tokens on each.
    ep : int, optional
        Over how many ranks the experts are distributed; by default over all.
    spread : bool, optional
        Whether these ranks are as far apart as possible instead of neighbours.
    load : sequence of float, optional
        The fraction of the copies that each expert gets; by default the same for all.
    nodes : int, optional
        Nodes with NVLink, with a network of one 400 Gbit/s card for each GPU; by default as few
        as possible, with eight GPUs in each.
    backward : bool, optional
        Whether the pass includes a backward pass.

    Returns
    -------
    Run
    """
    nodes = nodes or max(nprocs // 8, 1)
    machine = {"gpu": "h100", "link": "nvlink4", "nodes": nodes, "numerics": False}
    machine |= {"network": "ndr"} if nodes > 1 else {}
    machine |= {} if load else {"ranks": [0]}  # all ranks do the same
    load = load or [1 / sizes.experts] * sizes.experts

    def on_rank(rank):
        device = _join()
        own = _zeros(sizes, sizes.experts // (ep or nprocs), device)
        x = torch.zeros(tokens, sizes.hidden, dtype=torch.bfloat16, device=device)
        group = _mesh(device, nprocs, ep or nprocs, spread)["experts"].get_group()
        how = {"group": group, "count": _count(load)}
        timer, x = Timer(device), x.requires_grad_(backward)
        for _ in range(2):
            timer.start()
            with torch.set_grad_enabled(backward):
                y = layer(x, own, sizes.active, **how)
            if backward:
                y.square().sum().backward()
            timer.stop()
        return timer.times[-1]

    seconds = max(sim.spawn(on_rank, nprocs=nprocs, **machine))
    return Run(seconds, Timeline(sim.trace()).last(seconds))


def _zeros(sizes, own, device):
    """Return a router and some experts without values."""
    hidden, width, experts, _ = sizes
    shapes = (experts, hidden), (own, hidden, 2 * width), (own, width, hidden)
    how = {"dtype": torch.bfloat16, "device": device, "requires_grad": True}
    return [torch.zeros(shape, **how) for shape in shapes]


def _count(load):
    """Return a function that counts copies as if each expert got its fraction of them."""

    def count(chosen, experts):
        copies = chosen.numel()
        counts = [round(fraction * copies) for fraction in load]
        counts[counts.index(max(counts))] += copies - sum(counts)
        return torch.tensor(counts, device=chosen.device)

    return count


def seconds_by_kind(run):
    """Return how many seconds rank 0 spends in each part of a pass.

    Parameters
    ----------
    run : Run

    Returns
    -------
    dict of str to float
        For matrix products, all-to-alls, and all other kernels.
    """
    seconds = {"products": 0.0, "all-to-all": 0.0, "all else": 0.0}
    for (device, engine), spans in run.timeline.lanes().items():
        if device != "rank 0 sim:0" or not engine.startswith(("compute", "comm")):
            continue
        for span in spans:
            kind = "products" if "mm" in span.name else "all else"
            kind = "all-to-all" if engine.startswith("comm") else kind  # each group has a lane
            seconds[kind] += span.end - span.start
    return seconds


def _join():
    """Join the other ranks; return this rank's GPU."""
    dist.init_process_group()
    return torch.accelerator.current_accelerator()


def _mesh(device, ranks, ep, spread=False):
    """Return a mesh whose groups of experts are neighbours or, if spread, as far as possible."""
    shape, names = (ranks // ep, ep), ("replicas", "experts")
    if spread:
        shape, names = shape[::-1], names[::-1]
    return init_device_mesh(device.type, shape, mesh_dim_names=names)


def _own(weights, rank, ranks, device):
    """Return copies of the whole router and of a rank's experts."""
    router, *experts = weights
    return [_part(router, 0, 1, device), *(_part(w, rank, ranks, device) for w in experts)]


def _part(tensor, rank, ranks, device):
    return tensor.detach().chunk(ranks)[rank].clone().to(device).requires_grad_()

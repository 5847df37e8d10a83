"""The chapter on tensor parallelism: split models against whole ones, their times and memory."""

import copy
import logging
import re
import subprocess
import sys
from collections import OrderedDict
from functools import partial

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import simgpu as sim
from d2lmini.ddp import launcher_environment, torchrun_command
from d2lmini.timing import Timer
from simgpu.network import build_cluster, cost

A100S = {"gpu": "a100", "link": "nvlink3", "numerics": False, "ranks": [0]}
# PyTorch notes in which order a tensor on two mesh dimensions is gathered; it is right.
logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)


def difference(right, got):
    """Return the largest difference of two tensors, relative to the largest right value."""
    right, got = right.detach().cpu(), got.detach().cpu()
    return ((right - got).abs().max() / right.abs().max()).item()


def compare_with_one(make, split, nprocs=4, gather=None, finish=None):
    """Train a module for one step, whole and split over ranks.

    Parameters
    ----------
    make : callable
        Returns the module, which takes 16 features of each token.
    split : callable
        Called on every rank with a copy of the module; returns the rank's part of it.
    nprocs : int
    gather : callable, optional
        If every rank has only some of the tokens: returns the tokens of all ranks.
    finish : callable, optional
        Called with the split module between the backward pass and the step.

    Returns
    -------
    dict of str to float
        The largest relative difference, over all ranks, of the output, of the gradient of the
        input, and of the output after the step.
    """

    def on_rank(rank):
        device = _join()
        torch.manual_seed(0)
        whole, x = make(), torch.randn(8, 3, 16)
        parallel = split(copy.deepcopy(whole)).to(device)
        own = x.chunk(dist.get_world_size())[rank] if gather else x
        right, got = _one_step(whole, x), _one_step(parallel, own.to(device), finish)
        if gather:
            got = {name: gather(value.detach()) for name, value in got.items()}
        return {name: difference(right[name], got[name]) for name in right}

    return _largest(sim.spawn(on_rank, nprocs=nprocs))


def compare_plan(make, plan, nprocs=2):
    """Do as `compare_with_one`, with what ``parallelize_module`` makes of a module named "mlp"."""

    def split(module):
        device = torch.accelerator.current_accelerator()
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        return parallelize_module(module.to(device), mesh, plan)

    def make_named():
        return torch.nn.Sequential(OrderedDict(mlp=make()))

    return compare_with_one(make_named, split, nprocs)


def _join():
    """Join the other ranks; return this rank's GPU."""
    dist.init_process_group()
    return torch.accelerator.current_accelerator()


def _largest(found):
    """Return the largest value of all ranks by name."""
    return {name: max(one[name] for one in found) for name in found[0]}


def _one_step(module, x, finish=None):
    """Return the output, the gradient of the input, and the output after one step."""
    x = x.detach().clone().requires_grad_()
    y = module(x)
    y.square().sum().backward()
    if finish:
        finish(module)
    torch.optim.SGD(module.parameters(), lr=1e-3).step()
    return {"output": y, "gradient": x.grad, "after a step": module(x)}


def is_gradient(function, in_one_process, nprocs=3):
    """Return whether a function of ranks has the gradient that one process finds.

    Parameters
    ----------
    function : callable
        Called on every rank with its row of data; returns a tensor.
    in_one_process : callable
        Returns for the rows of all ranks what the ranks hold afterwards, as rows.
    nprocs : int

    Notes
    -----
    The loss that is differentiated is the sum of the losses of all ranks, which differ.
    """
    rows = torch.arange(6.0 * nprocs).view(nprocs, 6)

    def on_rank(rank):
        mine = rows[rank].to(_join()).requires_grad_()
        ((rank + 1) * function(mine) ** 2).sum().backward()
        return mine.grad.cpu()

    found = torch.stack(sim.spawn(on_rank, nprocs=nprocs))
    whole = rows.clone().requires_grad_()
    weights = torch.arange(1.0, nprocs + 1)[:, None]
    (weights * in_one_process(whole) ** 2).sum().backward()
    return torch.equal(found, whole.grad)


def compare_losses(split_loss, wrong_loss, part, nprocs=4, vocabulary=64, hidden=16):
    """Train an embedding and an output layer, whole and split by vocabulary, for two steps.

    Parameters
    ----------
    split_loss, wrong_loss : callable
        ``loss(E, H, tokens, targets)``, called on every rank: the first with the rank's rows of the
        embedding E and of the output layer H, the second with all of them.
    part : callable
        ``part(tensor, dim)``, returning what a rank has of a tensor.
    nprocs, vocabulary, hidden : int

    Returns
    -------
    dict of str to float
        The largest relative differences of the split model.
    float
        By how much the wrong loss is too large.
    """

    def whole_loss(E, H, tokens, targets):
        return functional.cross_entropy(functional.embedding(tokens, E) @ H.T, targets)

    def on_rank(rank):
        device = _join()
        torch.manual_seed(0)
        E, H = torch.randn(2, vocabulary, hidden)
        texts = torch.randint(vocabulary, (2, 40))
        right = _two_steps(E, H, texts, whole_loss)
        own = part(E, 0).to(device), part(H, 0).to(device), texts.to(device)
        got = _two_steps(*own, split_loss)
        for name in "embedding", "head":
            right[name] = part(right[name], 0)
        wrong = wrong_loss(E.to(device), H.to(device), *texts.to(device))
        off = {name: difference(right[name], got[name]) for name in right}
        return off, wrong.item() - right["loss"].item()

    differences, wrong = zip(*sim.spawn(on_rank, nprocs=nprocs), strict=True)
    return _largest(differences), max(wrong, key=abs)


def _two_steps(E, H, texts, loss_of):
    """Return the losses of two steps and the gradients of the first."""
    found, weights = {}, [w.detach().clone().requires_grad_() for w in (E, H)]
    optimizer = torch.optim.SGD(weights, lr=1.0)
    for name in "loss", "after a step":
        found[name] = loss_of(*weights, *texts)
        found[name].backward()
        if name == "loss":
            found["embedding"], found["head"] = (w.grad.clone() for w in weights)
        optimizer.step()
    return found


def pass_seconds(make, shape, nprocs=1, forward=None, **machine):
    """Return the simulated seconds of the second of two passes over a module in bfloat16.

    Parameters
    ----------
    make : callable
        Returns the module of a rank.
    shape : tuple of int
        Of the rank's input.
    nprocs : int
        GPUs, by default A100s with NVLink, of which one is looked at.
    forward : callable
        ``forward(module, x)``, the pass to be timed; by default forward and backward.
    **machine
        As in `simgpu.spawn`.
    """

    def on_rank(rank):
        device = _join()
        timer = Timer(device)
        with device, torch.set_grad_enabled(forward is None):
            module = make().to(torch.bfloat16)
            x = torch.zeros(shape, dtype=torch.bfloat16, requires_grad=forward is None)
            for _ in range(2):
                timer.start()
                forward(module, x) if forward else module(x).sum().backward()
                timer.stop()
        return timer.times[-1]

    return sim.spawn(on_rank, nprocs=nprocs, **A100S | machine)[0]


def bus_bandwidth(t, network, nbytes, gpu="a100", link="nvlink3"):
    """Return the bus bandwidth of an all-reduce over t GPUs, eight in a node with NVLink."""
    nodes = max(t // 8, 1)
    cluster = build_cluster(t, gpu, link, nodes=nodes, network=network if nodes > 1 else None)
    return cost("all_reduce", nbytes, range(t), cluster).bus_bandwidth


def kept_bytes(make, shape, nprocs=8, again=()):
    """Return the bytes that a layer keeps for its backward pass on a rank.

    Parameters
    ----------
    make : callable
        Returns the layer of a rank, whose method ``mix`` is the attention of its heads.
    shape : tuple of int
        Of the rank's input.
    nprocs : int
    again : collection of str
        What is computed once more in the backward pass: "scores", "gathers" (of the inputs of the
        split layers), or "all".
    """

    def on_rank(rank):
        device = _join()
        with device:
            layer = make().to(torch.bfloat16)
            _run_again(layer, again)
            before = sim.memory_allocated(device)
            x = torch.zeros(shape, dtype=torch.bfloat16, requires_grad=True)
            y = _rerun(layer)(x) if "all" in again else layer(x)
            return sim.memory_allocated(device) - y.nbytes - before  # y is the next layer's

    return sim.spawn(on_rank, nprocs=nprocs, **A100S)[0]


def _rerun(function):
    return partial(checkpoint, function, use_reentrant=False)


def _run_again(layer, again):
    layer.attention.mix = layer.mix
    if "scores" in again:
        layer.attention.mix = _rerun(layer.mix)
    if "gathers" in again:  # keeps a rank's own tokens, and gathers them again
        for linear in layer.attention.qkv, layer.mlp.up:
            linear.forward = _rerun(linear.forward)


def make_texts():
    """Return random tokens, as (steps, tokens, batch)."""
    return torch.randint(64, (3, 9, 4), generator=torch.Generator().manual_seed(3))


def whole(value):
    """Return a tensor on the CPU, all parts of it if it is a DTensor."""
    return (value.full_tensor() if isinstance(value, DTensor) else value).cpu()


def start_script(script, nprocs, *options, simulated=False):
    """Start a script on processes of the CPU or on simulated GPUs; return what it prints."""
    command = torchrun_command(script, "--cpu", *options, nproc_per_node=nprocs)
    if simulated:
        launcher = [sys.executable, "-m", "simgpu", "run"]
        command = [*launcher, f"--nproc-per-node={nprocs}", script, *options]
    how = {"capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run(command, env=launcher_environment(), **how)
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses_in(text):
    """Return the losses in what a script has printed."""
    return [float(x) for x in re.findall(r"loss (\S+)", text)]

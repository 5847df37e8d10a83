"""The checker of a training step that is split over data and tensor parallel ranks."""

import random
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.nn import functional

import simgpu as sim
from d2lmini.checks.shared.ranks import to_host
from d2lmini.checks.shared.results import describe, number
from d2lmini.checks.shared.solution import checker

IGNORED = -100  # a target that does not count
CLASSES = 6
MOST_WORK = 1.5  # times a rank's share of the FLOPs: norms and the last layer need not be split


class Block(nn.Module):
    """A norm and an MLP around which the input is added."""

    def __init__(self, hidden, inner):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.up, self.down = nn.Linear(hidden, inner), nn.Linear(inner, hidden)

    def forward(self, x):
        """Return an output of the shape of the input, (batch, hidden)."""
        return x + self.down(functional.gelu(self.up(self.norm(x))))


class Network(nn.Module):
    """Some blocks, and a layer that makes the logits."""

    def __init__(self, hidden, inner, layers):
        super().__init__()
        self.blocks = nn.ModuleList(Block(hidden, inner) for _ in range(layers))
        self.head = nn.Linear(hidden, CLASSES)

    def forward(self, x):
        """Return logits, (batch, classes)."""
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@dataclass(frozen=True)
class Task:
    """What is trained on which ranks.

    Attributes
    ----------
    dp, tp : int
        Data and tensor parallel ranks.
    hidden, layers, batch : int
        Sizes.
    """

    dp: int
    tp: int
    hidden: int
    layers: int
    batch: int

    def model(self):
        """Return the network, float64, always with the same values."""
        torch.manual_seed(self.hidden + self.layers)
        return Network(self.hidden, 8 * self.hidden, self.layers).double()

    def data(self):
        """Return inputs, (batch, hidden), and targets; many of the last ones do not count."""
        generator = torch.Generator().manual_seed(self.batch)
        x = torch.randn(self.batch, self.hidden, generator=generator, dtype=torch.float64)
        y = torch.randint(CLASSES, (self.batch,), generator=generator)
        places = torch.arange(self.batch) / self.batch
        ignored = torch.rand(self.batch, generator=generator) < 0.8 * places
        return x, torch.where(ignored & (torch.arange(self.batch) % 4 > 0), IGNORED, y)


def draw_task(seed) -> Task:
    """Return a task that depends on the seed alone."""
    draw = random.Random(f"training of {seed}")
    dp, tp = draw.choice([(2, 2), (4, 2), (2, 4)])
    return Task(dp, tp, draw.choice([32, 48, 64]), draw.choice([2, 3]), dp * draw.choice([8, 12]))


@checker("train(model, x, y, mesh)", may_change=("model",))
def check_train(train, seed="example"):
    """Check that a step on several ranks gives the loss and the gradients of one GPU.

    Parameters
    ----------
    train : callable
        ``train(model, x, y, mesh)``, called on every rank with a copy of the whole network (its
        ``blocks`` have layers ``norm``, ``up`` and ``down``, behind them is a layer ``head``), all
        inputs, all targets (those of -100 do not count), and a mesh with dimensions "dp" and "tp";
        returning the loss, a mean over all targets that count, and a dictionary of gradients by the
        names of ``model.named_parameters()``: each whole, or this tensor parallel rank's part.
    seed : str, default "example"
        Your name: it decides the sizes and the mesh.

    Raises
    ------
    AssertionError
        If loss or gradients are not those of one GPU, or the ranks do not share the work; the
        message names the usual mistakes.
    """
    task = draw_task(seed)
    where = f"{task.dp} data x {task.tp} tensor parallel ranks"
    model, (x, y) = task.model(), task.data()
    loss, right = _one_gpu(model, x, y)
    given = train.at(where)
    found, work = _on_ranks(given, task, x, y)
    for rank, (got, gradients) in enumerate(found):
        at = f"{where}, rank {rank}"
        got = number(got, f"{at}: the loss")
        if not abs(got - loss) < 1e-9:
            hint = _explain_loss(got, rank, task, model, x, y)
            raise AssertionError(
                f"{at}: the loss is {got:.6f}; on one GPU it is {loss:.6f}. {hint}"
            )
        _check_gradients(gradients, right, rank % task.tp, task, at)
    _check_work(work, _flops_of_one(task, x, y), task, where)
    print("train: passed")


def _one_gpu(model, x, y, reduction="mean"):
    model.zero_grad()
    loss = functional.cross_entropy(model(x), y, ignore_index=IGNORED, reduction=reduction)
    loss.backward()
    return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters()}


def _on_ranks(given, task, x, y):
    """Return what each rank returns, its gradients on the host, and its FLOPs."""

    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        mesh = init_device_mesh(device.type, (task.dp, task.tp), mesh_dim_names=("dp", "tp"))
        pair = given(task.model().to(device), x.to(device), y.to(device), mesh)
        loss, gradients = given.items(pair, 2)
        if not isinstance(gradients, dict):
            given.fail(f"returned {describe(gradients)} of gradients; a dictionary is needed")
        return to_host(loss), {name: to_host(_whole(g)) for name, g in gradients.items()}

    with given.running():
        found = sim.spawn(program, nprocs=task.dp * task.tp, gpu="a100", link="nvlink3")
    return found, _flops()


def _whole(gradient):
    return gradient.full_tensor() if isinstance(gradient, DTensor) else gradient


def _flops():
    """Return the FLOPs of the kernels of each device in the trace."""
    found = {}
    for span in sim.trace():
        if span.engine == "compute":
            found[span.device] = found.get(span.device, 0) + span.flops
    return found


def _flops_of_one(task, x, y):
    def program(rank):
        device = torch.accelerator.current_accelerator()
        _one_gpu(task.model().to(device), x.to(device), y.to(device))

    sim.spawn(program, nprocs=1, gpu="a100")
    return max(_flops().values())


def _check_work(work, whole, task, where):
    share = 1 / (task.dp * task.tp)
    for device, flops in sorted(work.items()):
        part = flops / whole
        if part > MOST_WORK * share:
            raise AssertionError(
                f"{where}: {device.rpartition(' ')[0]} computes {part:.2f} of the FLOPs of one "
                f"GPU; its share is {share:.2f}. {_explain_work(part, task)}"
            )


def _explain_work(part, task):
    if abs(part * task.tp - 1) < 0.3:
        return "Each rank goes through all of the batch: let the data parallel ranks split it"
    if abs(part * task.dp - 1) < 0.3:
        return "The layers `up` and `down` are whole: split them over the tensor parallel ranks"
    return "Split the batch over the dimension dp, and the layers `up` and `down` over tp"


def _parts(task, x, y):
    return zip(x.chunk(task.dp), y.chunk(task.dp), strict=True)


def _explain_loss(got, rank, task, model, x, y):
    means = [_one_gpu(model, *part)[0] for part in _parts(task, x, y)]
    sums = [_one_gpu(model, *part, "sum")[0] for part in _parts(task, x, y)]
    counts = [int((part != IGNORED).sum()) for _, part in _parts(task, x, y)]
    for value, hint in (
        (sum(means) / task.dp, f"That is the mean of {task.dp} means, but the parts of the batch "
         f"have {', '.join(map(str, counts))} targets that count: divide the sum of all losses by "
         "the number of all such targets"),
        (means[rank // task.tp], "That is the mean over this rank's part of the batch alone: its "
         "loss and its count have to be summed over dp"),
        (sums[rank // task.tp] / sum(counts), "That is this rank's part of the sum: add up the "
         "parts of all data parallel ranks"),
        (sum(sums), "That is the sum over all targets: divide it by their number"),
        (sum(sums) / len(x), "You divide by all targets, also those of -100, which do not count"),
        (sum(sums) / sum(counts) * task.tp, "That is tp times the loss: the ranks of one tensor "
         "parallel group have the same loss, so sum it over dp alone"),
    ):  # fmt: skip
        if abs(got - value) < 1e-9:
            return hint
    return "Compare the logits first: do `down` and its bias give those of the whole layer?"


def _check_gradients(gradients, right, tp_rank, task, where):
    missing = ", ".join(name for name in right if name not in gradients)
    assert not missing, f"{where}: there is no gradient of {missing}"
    for name in right:
        got, wanted = gradients[name], right[name]
        if not isinstance(got, torch.Tensor):
            raise AssertionError(f"{where}: the gradient of {name} is {describe(got)}")
        options = [wanted] + [
            part.chunk(task.tp, dim)[tp_rank]
            for dim, part in enumerate([wanted] * wanted.dim())
            if wanted.shape[dim] % task.tp == 0
        ]
        options = [part for part in options if part.shape == got.shape]
        if not options:
            raise AssertionError(
                f"{where}: the gradient of {name} is of shape {tuple(got.shape)}; the whole one is "
                f"of shape {tuple(wanted.shape)}, and a part is one {task.tp}th of it"
            )
        if not any(_close(got, part) for part in options):
            hint = _explain_gradient(got, options[0], name, task)
            raise AssertionError(f"{where}: the gradient of {name} is wrong. {hint}")


def _close(got, wanted):
    return torch.allclose(got, wanted, rtol=0, atol=1e-9)


def _explain_gradient(got, wanted, name, task):
    for factor, hint in (
        (task.dp, "It is dp times too large: summed where a mean was due, or divided too rarely"),
        (1 / task.dp, "It is dp times too small: it is divided by the ranks, and the loss was "
         "divided by all targets already"),
        (task.tp, "It is tp times too large: ranks of one tensor parallel group hold the same "
         "loss, and its gradient was summed over them"),
        (1 / task.tp, "It is tp times too small"),
    ):  # fmt: skip
        if _close(got, factor * wanted):
            return hint
    if ".norm." in name or "blocks.0" in name or name.endswith("down.bias"):
        return (
            "Is it summed over dp? And where the split layers begin, the gradient of their input "
            "has to be summed over tp"
        )
    return "Sum it over the data parallel ranks: each of them has seen a part of the batch"

"""The chapter on pipelines: what a step takes, its gradients, and a language model in stages."""

from collections import namedtuple
from dataclasses import dataclass
from functools import partial

import matplotlib.pyplot as plt
import torch
import torch.distributed as dist
from matplotlib.patches import Patch
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.nn import functional

import simgpu as sim
from d2lmini.language_model import Block
from d2lmini.pages.multiple_gpus import max_difference
from d2lmini.timing import Timer
from simgpu.timeline import Timeline
from simgpu.units import GREEN, ORANGE, SKY, YELLOW

LANGUAGE_LAYERS = 16
# Different tokens, features, texts, tokens of a text.
LARGE, SMALL = (65536, 2048, 16, 1024), (50, 16, 16, 4)
LOOKS = {  # of a pass: colour, hatch, name in the legend
    "forward": (SKY, "", "forward"),
    "backward": (ORANGE, "", "backward, both gradients"),
    "input": (YELLOW, "", "gradient of the input"),
    "weight": (GREEN, "////", "gradient of the weights"),
}

NOTES = []  # of a rank, in its process: kind, micro-batch, stage, begin, end

Pass = namedtuple("Pass", "rank kind micro stage start end")


@dataclass
class Step:
    """One step of a pipeline on simulated GPUs.

    Attributes
    ----------
    timeline : Timeline
        The kernels of all GPUs.
    passes : list of Pass
        From the first kernel of a pass to its last; `kind` is a key of `LOOKS`.
    peaks : list of int
        Bytes in use on each GPU, at most.
    stages : list of list of int
        Which stages each GPU holds.
    """

    timeline: Timeline
    passes: list
    peaks: list
    stages: list

    @property
    def ms(self):
        """Return how long the step takes, in simulated ms."""
        return 1e3 * (self.timeline.end - self.timeline.start)

    @property
    def idle(self):
        """Return the share of the step in which each GPU runs no kernel."""
        return [1 - busy for busy in self.timeline.busy().values()]

    @property
    def bubble(self):
        """Return the mean of `idle` over the GPUs."""
        return sum(self.idle) / len(self.idle)

    @property
    def own_idle(self):
        """Return the idle share of the busiest GPU's time from its first pass to its last one."""
        times = []
        for rank in range(len(self.stages)):
            mine = [p for p in self.passes if p.rank == rank]
            times.append(max(p.end for p in mine) - min(p.start for p in mine))
        return 1 - (1 - self.bubble) * self.ms / 1e3 / max(times)

    @property
    def live(self):
        """Return how many micro-batches each GPU keeps at most, in shares of its layers."""
        return [self._most_live(rank) / len(held) for rank, held in enumerate(self.stages)]

    def _most_live(self, rank):
        live = most = 0
        for p in sorted((p for p in self.passes if p.rank == rank), key=lambda p: p.start):
            live += {"forward": 1, "input": 0}.get(p.kind, -1)
            most = max(most, live)
        return most


def watched(order):
    """Yield the passes of a schedule; note when the host begins each of them, and when it ends it.

    Parameters
    ----------
    order : iterable of (str, int)
        Kind and micro-batch of each pass.
    """
    for kind, micro in order:
        begin = sim.now()
        yield kind, micro
        NOTES.append((kind, micro, dist.get_rank(), begin, sim.now()))


def measure(prepare, p=4, link="nvlink3", steps=1):
    """Run steps of a pipeline on simulated A100s, shapes only; return the last one.

    Parameters
    ----------
    prepare : callable
        Called on every rank, without arguments. Returns the stages that the rank holds, and a
        function that makes one step: with passes that are `watched`, or of PyTorch's stages.
    p : int
        GPUs.
    link : str
        What connects them.
    steps : int
        PyTorch's stages find out their shapes in the first one.

    Returns
    -------
    Step
    """
    found = sim.spawn(_measure, (prepare, steps), nprocs=p, gpu="a100", link=link, numerics=False)
    starts, ends, peaks, notes, stages = zip(*found, strict=True)
    kernels = [span for span in sim.trace() if span.engine == "compute"]
    passes = [x for rank in range(p) for x in _passes(rank, notes[rank])]
    return Step(Timeline(kernels, min(starts), max(ends)), passes, list(peaks), list(stages))


def _measure(rank, prepare, steps):
    dist.init_process_group()
    stages, step = prepare()
    for stage in stages:
        _watch(stage)
    for _ in range(steps):
        for stage in stages:
            _part(stage).zero_grad()
        torch.accelerator.synchronize()
        dist.barrier()
        NOTES.clear()
        start = sim.now()
        step()
    torch.accelerator.synchronize()
    peak = torch.accelerator.max_memory_allocated()
    return start, sim.now(), peak, list(NOTES), [_number(stage) for stage in stages]


def _part(stage):
    """Return the layers of a stage, the chapter's or PyTorch's."""
    return stage.submod if isinstance(stage, PipelineStage) else stage.part


def _number(stage):
    return stage.stage_index if isinstance(stage, PipelineStage) else stage.rank


def _watch(stage):
    """Make a stage of PyTorch note its passes, as `watched` does."""
    kinds = {"forward_one_chunk": "forward", "backward_one_chunk": "backward"}
    kinds["backward_weight_one_chunk"] = "weight"
    for name, kind in kinds.items() if isinstance(stage, PipelineStage) else ():
        setattr(stage, name, _noting(getattr(stage, name), kind, stage.stage_index))


def _noting(method, kind, number):
    def wrapped(micro, *args, **how):
        begin = sim.now()
        result = method(micro, *args, **how)
        is_split = kind == "backward" and not how.get("full_backward", True)
        NOTES.append(("input" if is_split else kind, micro, number, begin, sim.now()))
        return result

    return wrapped


def _passes(rank, notes):
    """Yield the passes of a rank: the kernels that it launched during each note."""
    mine = [s for s in sim.trace() if s.device.startswith(f"rank {rank} ")]
    kernels = [s for s in mine if s.engine == "compute"]
    launched = [s for s in mine if s.engine == "launch" and not s.stream]
    launched = [s for s in launched if not s.name.startswith("copy")]
    assert [s.name for s in launched] == [s.name for s in kernels]
    pairs = list(zip(launched, kernels, strict=True))
    for kind, micro, stage, begin, end in notes:
        own = [kernel for s, kernel in pairs if begin <= s.start < end]
        if own:
            yield Pass(rank, kind, micro, stage, own[0].start, own[-1].end)


def draw(steps):
    """Draw steps below each other on one axis of time.

    Parameters
    ----------
    steps : dict of str to Step
        By title. A box is a pass, with the number of its micro-batch; a GPU's second stage is
        paler.
    """
    size = (7.5, 0.5 + 1.25 * len(steps))
    how = {"squeeze": False, "sharex": True, "layout": "constrained"}
    fig, axes = plt.subplots(len(steps), 1, figsize=size, **how)
    for ax, (title, step) in zip(axes[:, 0], steps.items(), strict=True):
        _boxes(ax, step)
        ax.set_title(title, loc="left", fontsize=9)
        ranks = range(len(step.stages))
        ax.set_yticks(ranks, [f"GPU {rank}" for rank in ranks])
        ax.invert_yaxis()
    kinds = {p.kind for step in steps.values() for p in step.passes}
    looks = [LOOKS[kind] for kind in LOOKS if kind in kinds]
    marks = [Patch(fc=c, hatch=h, ec="k", label=name) for c, h, name in looks]
    fig.legend(handles=marks, loc="outside upper left", ncols=4, fontsize=8)
    ax.set_xlim(0, 1.01 * max(step.ms for step in steps.values()))
    ax.set_xlabel("ms (simulated)")
    plt.show()


def _boxes(ax, step):
    for p in step.passes:
        x, width = 1e3 * (p.start - step.timeline.start), 1e3 * (p.end - p.start)
        colour, hatch, _ = LOOKS[p.kind]
        look = {"hatch": hatch, "ec": "black", "lw": 0.4}
        look["alpha"] = 1.0 if p.stage < len(step.stages) else 0.55
        ax.barh(p.rank, width, left=x, height=0.9, color=colour, **look)
        if width > step.ms / 60 and not hatch:
            where = {"ha": "center", "va": "center", "fontsize": 6.5}
            ax.text(x + width / 2, p.rank, p.micro, **where)


def gradients(prepare, p=4):
    """Return the gradients that a step leaves, with values, in the order of the layers.

    Parameters
    ----------
    prepare : callable
        As for `measure`.
    p : int
        GPUs.
    """

    def on_rank(rank):
        dist.init_process_group()
        stages, step = prepare()
        step()
        return {_number(s): [x.grad.cpu() for x in _part(s).parameters()] for s in stages}

    by_stage = {}
    for found in sim.spawn(on_rank, nprocs=p):
        by_stage |= found
    return [gradient for number in sorted(by_stage) for gradient in by_stage[number]]


def difference(right, got):
    """Return the largest difference of tensors, relative to the largest right number."""
    return max_difference(right, got) / max(x.abs().max().item() for x in right)


class Head(nn.Linear):
    """The last layer of a language model: one row of logits for each token of all texts."""

    def forward(self, x):
        """Map (batch, tokens, width) to (batch * tokens, vocabulary)."""
        return super().forward(x.flatten(0, 1))


def language_layer(i, vocabulary, width):
    """Return layer i of a language model on the current GPU: an embedding, 14 blocks, a head.

    The blocks are those of `LanguageModel`. The head begins as a copy of the embedding.
    """
    torch.manual_seed(i)
    with torch.accelerator.current_accelerator():
        if i == 0:
            layer = nn.Embedding(vocabulary, width)
        elif i == LANGUAGE_LAYERS - 1:
            layer = Head(width, vocabulary, bias=False)
        else:
            return Block(width, heads=max(width // 128, 2))
    torch.manual_seed(0)
    nn.init.normal_(layer.weight, std=0.1)
    return layer


def language_stage(cuts, large=False):
    """Return this rank's stage of the language model, and one minibatch.

    Parameters
    ----------
    cuts : list of int
        Where stages 1, 2, ... begin.
    large : bool
        To be timed, without values.

    Returns
    -------
    PipelineStage
    Tensor, Tensor
        The texts, and the tokens that follow, in one row.
    """
    rank, (vocabulary, width, *shape) = dist.get_rank(), LARGE if large else SMALL
    bounds = [0, *cuts, LANGUAGE_LAYERS]
    mine = range(bounds[rank], bounds[rank + 1])
    part = nn.Sequential(*(language_layer(i, vocabulary, width) for i in mine))
    device = torch.accelerator.current_accelerator()
    return PipelineStage(part, rank, len(cuts) + 1, device), *_tokens(vocabulary, *shape)


def _tokens(vocabulary, texts, length):
    """Return random texts, and in one row the tokens that follow."""
    generator = torch.Generator().manual_seed(7)
    tokens = torch.randint(vocabulary, (2, texts, length), generator=generator)
    X, y = tokens.to(torch.accelerator.current_accelerator())
    return X, y.flatten()


def language_costs(m):
    """Return the simulated seconds of each layer for a micro-batch, forward and backward."""
    found = sim.spawn(_three_layers, (m, *LARGE), gpu="a100", numerics=False)
    embedding, block, head = found[0]
    return [embedding, *[block] * (LANGUAGE_LAYERS - 2), head]


def _three_layers(rank, m, vocabulary, width, texts, length):
    device = torch.accelerator.current_accelerator()
    tokens, y = _tokens(vocabulary, texts // m, length)
    x = torch.ones(*tokens.shape, width, device=device, requires_grad=True)
    timer = Timer(device)
    for i, given in (0, tokens), (1, x), (LANGUAGE_LAYERS - 1, x):
        layer = language_layer(i, vocabulary, width)
        is_head = i == LANGUAGE_LAYERS - 1
        for _ in range(2):  # as in a step, gradients are added to those of another micro-batch
            timer.start()
            out = layer(given)
            (functional.cross_entropy(out, y) if is_head else out.sum()).backward()
            timer.stop()
    return timer.times[1::2]


def language_on_one(steps=3, max_norm=1.5):
    """Train the language model on one GPU, clipped; return its parameters, the tied one once."""

    def train(rank):
        vocabulary, width, *shape = SMALL
        layers = (language_layer(i, vocabulary, width) for i in range(LANGUAGE_LAYERS))
        model = nn.Sequential(*layers)
        model[-1].weight = model[0].weight
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        X, y = _tokens(vocabulary, *shape)
        for _ in range(steps):
            optimizer.zero_grad()
            functional.cross_entropy(model(X), y).backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
        return [parameter.detach().cpu() for parameter in model.parameters()]

    return sim.spawn(train)[0]


def mistakes(sum_tied, clip):
    """Return by name how the chapter's ``train`` is called: once right, and with each mistake.

    Parameters
    ----------
    sum_tied, clip : callable
        ``f(rank, part, ends)``, which sum the gradients of the tied matrix and clip all of them.

    Returns
    -------
    dict of str to dict
    """
    labels = SMALL[2] // 4 * SMALL[3]  # of one of four micro-batches
    return {
        "all right": {"finish": [sum_tied, clip]},
        "tied parts not summed": {"finish": [clip]},
        "clipped by stage": {"finish": [sum_tied, partial(_clip, of_stage=True)]},
        "tied counted twice": {"finish": [sum_tied, partial(_clip, of_stage=False)]},
        "divided by m twice": {"finish": [sum_tied, clip], "loss_fn": _divided},
        "labels of i + 1": {"finish": [sum_tied, clip], "shift": labels},
    }


def _clip(rank, part, ends, of_stage, max_norm=1.5):
    """Clip by the norm of one stage, or by one in which the tied matrix counts twice."""
    gradients = [parameter.grad for parameter in part.parameters()]
    is_last = rank == dist.get_world_size() - 1
    counted = gradients[:-1] if is_last and of_stage else gradients
    square = sum((gradient**2).sum() for gradient in counted)
    if not of_stage:
        dist.all_reduce(square)
    for gradient in gradients:
        gradient.mul_((max_norm / square.sqrt()).clamp(max=1))


def _divided(out, y):
    return functional.cross_entropy(out, y) / 4

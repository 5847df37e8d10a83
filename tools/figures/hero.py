"""The runs that the front page lets its readers choose: two models on 1, 2 and 8 simulated GPUs.

`runs` trains them, `page` writes what the page shows of them. ``python -m tools.poster`` stores it
as ``assets/front/runs.html``; ``assets/front.js`` shows the run that is chosen.
"""

from dataclasses import dataclass, replace
from html import escape

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import d2lmini
from d2lmini import Timeline, Timer, sim
from tools.words import fill, say

COUNTS, GPU, LINK, STEPS = (1, 2, 8), "a100", "pcie4", 3
IMAGES = 256  # all GPUs together
SEQUENCES, LENGTH = 8, 512  # of each GPU
SIZES = {"words": 8192, "width": 512, "heads": 8, "layers": 6, "length": LENGTH}
NAMES = {"language": say("language model"), "lenet": "LeNet"}
RATES = {"language": say("{rate} tokens/s"), "lenet": say("{rate} images/s")}


def train(rank):
    """Train the language model on one rank; return how long the last step took."""
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    network = DistributedDataParallel(d2lmini.LanguageModel(**SIZES).to(device))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    tokens = torch.zeros(SEQUENCES, LENGTH + 1).long().to(device)
    timer = Timer(device)
    for _ in range(STEPS):
        timer.start()
        guesses = network(tokens[:, :-1]).flatten(0, 1)
        functional.cross_entropy(guesses, tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        timer.stop()
    dist.destroy_process_group()
    return timer.times[-1]


@dataclass(frozen=True)
class Run:
    """The last step of a run.

    Attributes
    ----------
    whole : Timeline
        All lanes.
    seconds : float
    rate : float
        Tokens or images a second, of all GPUs together.
    """

    whole: Timeline
    seconds: float
    rate: float

    @property
    def timeline(self):
        """A lane for each GPU's work, and one each for what the first process launches and sends.

        Names are the same in one process or many.
        """
        spans = []
        for span in self.whole.spans:
            rank, _, name = span.device.rpartition(" ")
            first = rank in ("", "rank 0") and (span.engine == "launch" or name.endswith(":0"))
            if span.engine == "compute" or first:
                spans.append(replace(span, device=name))
        return Timeline(spans, self.whole.start, self.whole.end)


def language(count):
    """Train the language model with DistributedDataParallel."""
    how = {"nprocs": count, "gpu": GPU, "link": LINK, "ranks": list(range(count))}
    seconds = float(max(sim.spawn(train, (), numerics=False, **how)))
    return Run(Timeline(sim.trace()).last(seconds), seconds, count * SEQUENCES * LENGTH / seconds)


def lenet(count):
    """Train LeNet as the chapter on training from scratch does: one process, all GPUs."""
    devices = d2lmini.gpus(count, gpu=GPU, link=LINK, numerics=False, quiet=True)
    replicas = [d2lmini.get_params(d2lmini.init_params(), device) for device in devices]
    X, y = torch.zeros(IMAGES, 1, 28, 28), torch.zeros(IMAGES).long()
    timer = Timer(*devices)
    for _ in range(STEPS):
        timer.start()
        d2lmini.train_batch(X, y, replicas, devices, 0.1)
        timer.stop()
    seconds = float(timer.times[-1])
    return Run(Timeline(sim.trace()).last(seconds), seconds, IMAGES / seconds)


def runs():
    """Return all runs: ``{(model, GPUs): Run}``."""
    return {(m, k): run(k) for m, run in (("language", language), ("lenet", lenet)) for k in COUNTS}


def round_off(value):
    """Return a number with two digits.

    Examples
    --------
    >>> round_off(7.1234), round_off(0.456), round_off(73456.0)
    ('7.1', '0.46', '73,000')
    """
    value = float(f"{value:.2g}")
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


def gpus(count):
    """Return a number of GPUs in words."""
    return say("{count} GPU", count=count) if count == 1 else say("{count} GPUs", count=count)


def says(model, count, run, alone):
    """Return what a run shows, in a sentence."""
    if count == 1:
        rate = round_off(run.rate)
        if model == "language":
            return say("One GPU trains on about {rate} tokens a second (simulated).", rate=rate)
        return say("One GPU trains on about {rate} images a second (simulated).", rate=rate)
    ratio = run.rate / alone.rate
    values = {"gpus": gpus(count), "times": round_off(ratio if ratio >= 1 else 1 / ratio)}
    is_twice = values["times"] == "2"
    if ratio < 1 and is_twice:
        return say("{gpus} (simulated) take twice as long as one.", **values)
    if ratio < 1:
        return say("{gpus} (simulated) take {times} times as long as one.", **values)
    if model == "language" and is_twice:
        return say("{gpus} (simulated) train on twice as many tokens a second as one.", **values)
    if model == "language":
        return say(
            "{gpus} (simulated) train on {times} times as many tokens a second as one.", **values
        )
    if is_twice:
        return say("{gpus} (simulated) train on twice as many images a second as one.", **values)
    return say(
        "{gpus} (simulated) train on {times} times as many images a second as one.", **values
    )


def buttons(label, kind, names):
    """Return a group of buttons, one of which is chosen: ``{value: name}``."""
    made = "".join(
        f'<button type="button" data-{kind}="{value}" aria-pressed="false">{name}</button>'
        for value, name in names.items()
    )
    return f'<div class="hero-choice" role="group" aria-label="{label}">{made}</div>\n'


def page(found):
    """Return the part of the page that `assets/front.js` brings to life.

    Parameters
    ----------
    found : dict
        What `runs` returns.
    """
    counts = {k: gpus(k) for k in COUNTS}
    most = {m: max(run.rate for (model, _), run in found.items() if model == m) for m in NAMES}
    stored = "".join(
        f'<template data-model="{m}" data-count="{k}" data-share="{run.rate / most[m]:.3f}" '
        f'data-rate="{fill(RATES[m], {"rate": round_off(run.rate)})}" '
        f'data-says="{escape(says(m, k, run, found[m, 1]))}">'
        f"{run.timeline._repr_html_()}</template>\n"
        for (m, k), run in found.items()
    )
    choices = buttons(say("Model"), "model", NAMES) + buttons(
        say("Number of GPUs"), "count", counts
    )
    return (
        f'<div class="hero" hidden>\n{choices}'
        '<p class="hero-says" role="status"></p>\n<ul class="hero-bars"></ul>\n'
        f'<div class="hero-run"></div>\n{stored}</div>\n'
    )

"""The chapter on devices: updates of its networks, and the kernels of a timeline."""

import torch
from torch.nn import functional

from d2lmini.devices import gpus
from d2lmini.language_model import LanguageModel
from d2lmini.recording import record
from d2lmini.training import get_params, init_params, train_batch, train_networks
from simgpu import device_name

A100S = {"gpu": "a100", "link": "nvlink3", "numerics": False, "quiet": True}


def language_update(k, texts=64):
    """Return the timeline of an update of the language model on k simulated A100s.

    The model has 12 layers and a width of 768, and a text has 1,024 characters.

    Parameters
    ----------
    k : int
        GPUs.
    texts : int, default 64
        Texts of the minibatch, all GPUs together.
    """
    devices = gpus(k, **A100S)
    size = {"width": 768, "heads": 12, "layers": 12, "length": 1024}
    nets = [LanguageModel(**size).to(device) for device in devices]
    X = torch.zeros(texts, size["length"], dtype=torch.int64)
    with record(*devices) as recording:
        train_networks(nets, X, X, devices, lr=0.1)
    return recording.timeline


def lenet_update(k, images=256):
    """Return the timeline of an update of LeNet on k simulated A100s, after a first one.

    Parameters
    ----------
    k : int
        GPUs.
    images : int, default 256
        Images of the minibatch, all GPUs together.
    """
    devices = gpus(k, **A100S)
    replicas = [get_params(init_params(), device) for device in devices]
    X, y = torch.zeros(images, 1, 28, 28), torch.zeros(images, dtype=torch.int64)
    train_batch(X, y, replicas, devices, lr=0.1)  # the first one has no old gradients to clear
    with record(*devices) as recording:
        train_batch(X, y, replicas, devices, lr=0.1)
    return recording.timeline


def language_step(device):
    """Return the language model, and its forward and backward pass on 16 texts in 16-bit products.

    Parameters
    ----------
    device : torch.device
        A simulated one, which needs no values.

    Returns
    -------
    net : LanguageModel
    step : callable
        Its argument is the network, or what a compiler makes of it.
    """
    net = LanguageModel(width=768, heads=12, layers=12, length=1024).to(device)
    X = torch.zeros(16, 1024, dtype=torch.int64, device=device)

    def step(call):
        with torch.autocast(device.type, torch.bfloat16):
            logits = call(X).flatten(0, 1)
        functional.cross_entropy(logits, X.flatten()).backward()
        net.zero_grad()

    return net, step


def seconds(timeline):
    """Return how many seconds a timeline lasts."""
    return timeline.end - timeline.start


def kernels(timeline, device):
    """Return the kernels of a device in the order in which they ran.

    Parameters
    ----------
    timeline : simgpu.timeline.Timeline
    device : torch.device or str

    Returns
    -------
    list of simgpu.clock.span.Span
        With a name, ``start``, ``end`` and ``duration`` in seconds and, on a simulated GPU,
        ``flops`` and ``bytes``. On a real GPU only the busiest stream counts.
    """
    return timeline.lanes().get((device_name(device), "compute"), [])

"""LeNet, one device: an epoch of training and an evaluation, data loading included."""

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.cases.peers import load_d2l, load_d2l_data, quiet, quiet_data
from benchmarks.measure import Row, interleave, timed
from d2lmini import (
    accuracy,
    evaluate_accuracy,
    get_params,
    init_params,
    lenet,
    sgd,
    train_batch,
    try_gpu,
)
from d2lmini.data import Batches

BATCH_SIZE, LR = 256, 0.2
GOAL, GPU_GOAL = 1.3, 5.0
# Images of the training set and of the test set; a CPU takes a third of them, to save minutes.
ALL, THIRD, FEW = (60000, 10000), (20000, 3333), (1280, 512)


def rows(settings):
    device = try_gpu()
    full = ALL if device.type == "cuda" else THIRD
    size = settings.pick(full, FEW)
    for epoch in epochs(device, size if device.type == "cuda" else FEW).values():
        epoch()  # the warm-up; a short one is enough on a CPU
    sides = interleave(epochs(device, size), settings, warm_up=0)
    peer, taught, *faster = sides.values()
    what = f"{device.type}: train on {size[0]:,} images, evaluate on {size[1]:,}"
    note = "d2l: our LeNet made of layers; its loader, training loop and evaluation"
    yield Row("lenet", what, "s", taught, peer, goal=GOAL, note=note)
    for side in faster:
        case = f"{what}; {side.label}"
        yield Row("lenet", case, "s", side, taught)
        if device.type == "cuda":
            goal = GPU_GOAL if side is faster[-1] else None
            yield Row("lenet", f"{case}, against d2l", "s", side, peer, goal=goal)


def epochs(device, size):
    """Return the epochs to measure, by name: d2l's, the chapter's, faster ones."""
    data = quiet_data(BATCH_SIZE)
    ours = [_first(data[0], size[0], seed=0), _first(data[1], size[1], seed=None)]
    theirs = [_first_of_theirs(*pair) for pair in zip(load_d2l_data(BATCH_SIZE), size, strict=True)]
    kept = [(part.images.to(device), part.labels.to(device)) for part in ours]
    found = {
        "d2l.train_ch6": lambda: their_epoch(theirs, device),
        "train_batch": lambda: our_epoch(ours, device),
        "one gather an epoch": lambda: resident_epoch(kept, device, lenet),
    }
    if device.type == "cuda":
        fast = torch.compile(lenet, mode="reduce-overhead")  # CUDA graphs: LeNet is launch-bound
        found["one gather an epoch, compiled"] = lambda: resident_epoch(kept, device, fast)
    return {label: timed(epoch, device) for label, epoch in found.items()}


def our_epoch(data, device):
    """Train for an epoch and evaluate, as the from-scratch chapter does."""
    train_iter, test_iter = data
    params = get_params(init_params(), device)
    for X, y in train_iter:
        train_batch(X, y, [params], [device], LR)
    return evaluate_accuracy(lambda X: lenet(X, params), test_iter, device)


def resident_epoch(data, device, net):
    """Do the same with data that stay on the device, shuffled once an epoch, in large test batches.

    Batches are then slices: no gather, no copy from the host and no wait in the loop.
    """
    (images, labels), (test_images, test_labels) = data
    params = get_params(init_params(), device)
    order = torch.randperm(len(labels), device=device)
    images, labels = images.index_select(0, order), labels.index_select(0, order)
    for X, y in zip(images.split(BATCH_SIZE), labels.split(BATCH_SIZE), strict=True):
        F.cross_entropy(net(_to_float(X), params), y, reduction="sum").backward()
        sgd(params, LR, len(X))
    with torch.no_grad():
        batches = zip(test_images.split(1024), test_labels.split(1024), strict=True)
        correct = sum(accuracy(lenet(_to_float(X), params), y) for X, y in batches)
    return correct.item() / len(test_labels)


def _to_float(images):
    return images.float().div_(255)


def their_epoch(data, device):
    with quiet():
        load_d2l().train_ch6(lenet_module(), *data, num_epochs=1, lr=LR, device=device)


def lenet_module():
    """Make the chapter's LeNet of layers, as users of d2l do."""
    return nn.Sequential(
        *[nn.Conv2d(1, 20, 5), nn.ReLU(), nn.AvgPool2d(2)],
        *[nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()],
        *[nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10)],
    )


def _first(batches, num, seed):
    return Batches(batches.images[:num], batches.labels[:num], BATCH_SIZE, seed=seed)


def _first_of_theirs(loader, num):
    dataset = torch.utils.data.Subset(loader.dataset, range(num))
    workers = loader.num_workers
    return torch.utils.data.DataLoader(dataset, BATCH_SIZE, shuffle=True, num_workers=workers)

"""LeNet, one device: an epoch of training and an evaluation, data loading included."""

import torch
from torch import nn

from benchmarks.measure import Row, interleave, timed
from benchmarks.peers import load_d2l, load_d2l_data, quiet, quiet_data
from d2lmini import evaluate_accuracy, get_params, init_params, lenet, train_batch, try_gpu
from d2lmini.data import Batches

BATCH_SIZE, LR = 256, 0.2
GOAL = 1.3


def rows(settings):
    d2l = load_d2l()
    device = try_gpu()
    few = epochs(d2l, device, 5 * BATCH_SIZE)
    for epoch in few.values():
        epoch()  # the warm-up
    variants = few if settings.quick else epochs(d2l, device, None)
    sides = interleave(variants, settings, warm_up=0)
    case = f"{device.type}: one epoch and evaluation, batch {BATCH_SIZE}"
    note = "d2l: our LeNet made of layers; its loader, training loop and evaluation"
    return [Row("lenet", case, "s", *sides.values(), goal=GOAL, note=note)]


def epochs(d2l, device, num):
    """Return both sides' epoch over the first `num` images of either set, None for all."""
    ours = [_first(batches, num) for batches in quiet_data(BATCH_SIZE)]
    theirs = [_first_of_theirs(it, num) for it in load_d2l_data(BATCH_SIZE)]
    return {
        "d2lmini": timed(lambda: our_epoch(ours, device), device),
        "d2l.train_ch6": timed(lambda: their_epoch(d2l, theirs, device), device),
    }


def our_epoch(data, device):
    """Train for an epoch and evaluate, as the from-scratch chapter does."""
    train_iter, test_iter = data
    params = get_params(init_params(), device)
    for X, y in train_iter:
        train_batch(X, y, [params], [device], LR)
    return evaluate_accuracy(lambda X: lenet(X, params), test_iter, device)


def their_epoch(d2l, data, device):
    with quiet():
        d2l.train_ch6(lenet_module(), *data, num_epochs=1, lr=LR, device=device)


def lenet_module():
    """Make the chapter's LeNet of layers, as users of d2l do."""
    return nn.Sequential(
        *[nn.Conv2d(1, 20, 5), nn.ReLU(), nn.AvgPool2d(2)],
        *[nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()],
        *[nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10)],
    )


def _first(batches, num):
    if num is None:
        return batches
    return Batches(batches.images[:num], batches.labels[:num], BATCH_SIZE, seed=0)


def _first_of_theirs(loader, num):
    if num is None:
        return loader
    dataset = torch.utils.data.Subset(loader.dataset, range(num))
    workers = loader.num_workers
    return torch.utils.data.DataLoader(dataset, BATCH_SIZE, shuffle=True, num_workers=workers)

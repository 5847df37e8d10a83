"""The loader: images per second of one shuffled pass, against d2l's and against memory."""

import torch

from benchmarks.cases import machine
from benchmarks.cases.peers import load_d2l, load_d2l_data, quiet_data
from benchmarks.measure import Row, interleave, timed

BATCH_SIZE = 256
GOAL = 20.0
# Gathering reads and writes the bytes of an image; converting reads them and writes float32;
# dividing in place reads and writes those.
BYTES_PER_IMAGE = 28 * 28 * (1 + 1 + 1 + 4 + 4 + 4)


def rows(settings):
    workers = load_d2l().get_dataloader_workers()
    ours, _ = quiet_data(BATCH_SIZE)
    theirs, _ = load_d2l_data(BATCH_SIZE)
    num_batches = settings.pick(len(ours), 8)
    copy, num_bytes = machine.copy(settings, torch.device("cpu"))
    for run in (_pass(ours, 8), _pass(theirs, 8), copy):
        run()  # a whole pass of d2l's would be a long warm-up
    variants = {"d2lmini": _pass(ours, num_batches), "d2l": _pass(theirs, num_batches)}
    sides = interleave(variants | {"copy": copy}, settings, warm_up=0)
    images = min(num_batches * BATCH_SIZE, ours.num_examples)
    yield Row(
        "loader",
        f"one shuffled pass, batches of {BATCH_SIZE}",
        "images/s",
        sides["d2lmini"].rate(images),
        sides["d2l"].rate(images),
        goal=GOAL,
        note=f"d2l: a DataLoader with {workers} worker processes, started again for every pass",
    )
    yield Row(
        "loader",
        "bytes moved",
        "B/s",
        sides["d2lmini"].rate(images * BYTES_PER_IMAGE),
        sides["copy"].rate(num_bytes),
        note=f"{BYTES_PER_IMAGE} B an image: gathered as bytes, converted to float32, divided; "
        "copy: of a tensor far beyond the caches, which hold a batch",
    )


def _pass(batches, num_batches):
    def run():
        for number, (X, _) in enumerate(batches, 1):
            assert X.dtype.is_floating_point
            if number == num_batches:
                break

    return timed(run)

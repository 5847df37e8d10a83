"""The loader: images per second of one shuffled pass, against d2l's and against memory."""

from benchmarks.bench_machine import copy_row
from benchmarks.measure import Row, Side, as_rate, interleave, timed
from benchmarks.peers import load_d2l, load_d2l_data, quiet_data

BATCH_SIZE = 256
GOAL = 20.0
# Gathering reads and writes the bytes of an image; converting reads them and writes float32;
# dividing in place reads and writes those.
BYTES_PER_IMAGE = 28 * 28 * (1 + 1 + 1 + 4 + 4 + 4)


def rows(settings):
    d2l = load_d2l()
    ours, _ = quiet_data(BATCH_SIZE)
    theirs, _ = load_d2l_data(BATCH_SIZE)
    num_batches = settings.pick(len(ours), 8)
    for batches in (ours, theirs):
        _pass(batches, 8)()  # a whole pass of d2l's would be a long warm-up
    variants = {"d2lmini": _pass(ours, num_batches), "d2l": _pass(theirs, num_batches)}
    sides = interleave(variants, settings, warm_up=0)
    images = min(num_batches * BATCH_SIZE, ours.num_examples)
    rates = {label: as_rate(side, images) for label, side in sides.items()}
    workers = d2l.get_dataloader_workers()
    against_d2l = Row(
        "loader",
        f"one shuffled pass, batches of {BATCH_SIZE}",
        "images/s",
        rates["d2lmini"],
        rates["d2l"],
        goal=GOAL,
        higher_is_better=True,
        note=f"d2l: a DataLoader with {workers} worker processes, started anew for every pass",
    )
    return [against_d2l, _against_memory(settings, rates["d2lmini"])]


def _pass(batches, num_batches):
    def run():
        for number, (X, _) in enumerate(batches, 1):
            assert X.dtype.is_floating_point
            if number == num_batches:
                break

    return timed(run)


def _against_memory(settings, rate):
    """Compare the bytes that the loader must move with a plain copy's rate."""
    moved = Side("d2lmini", tuple(value * BYTES_PER_IMAGE / 1e9 for value in rate.samples))
    limit = copy_row(settings, "cpu").ours
    return Row(
        "loader",
        "bytes moved, against a plain copy",
        "GB/s",
        moved,
        Side("copy", limit.samples),
        higher_is_better=True,
        note=f"{BYTES_PER_IMAGE} B an image: gathered as bytes, converted to float32, divided",
    )

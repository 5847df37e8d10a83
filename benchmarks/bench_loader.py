"""Images per second of d2lmini's loader beside d2l's, in the same run.

``python benchmarks/bench_loader.py`` prints one line per comparison: ours, the peer's, the ratio.
"""

import argparse
import contextlib
import io
import os
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from d2lmini import load_data_fashion_mnist
from d2lmini.data import Batches

# Gathering reads and writes 784 bytes of an image, converting reads them, writes 784 float32, and
# dividing in place reads and writes those.
BYTES_PER_IMAGE = 784 * (1 + 1 + 1 + 4 + 4 + 4)


class Row(NamedTuple):
    """One line of the table: medians, and (largest - smallest) / median of the repetitions."""

    name: str
    ours: float
    peer: float
    ratio: float
    unit: str
    repetitions: int
    spread: float
    peer_spread: float


@contextlib.contextmanager
def d2l_module(data: tuple[Batches, Batches]) -> Iterator:
    """Give d2l with `data` where it looks for files: ../data from the working folder."""
    # d2l's plotting imports a name that IPython no longer has, and torchvision needs our way in.
    import IPython.display
    import matplotlib_inline.backend_inline

    import d2lmini._torchvision  # noqa: F401

    IPython.display.set_matplotlib_formats = matplotlib_inline.backend_inline.set_matplotlib_formats
    from d2l import torch as d2l

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        write_idx(Path(folder, "data", "FashionMNIST", "raw"), data)
        work = Path(folder, "work")
        work.mkdir()
        os.chdir(work)
        try:
            yield d2l
        finally:
            os.chdir(before)


def write_idx(folder: Path, data: tuple[Batches, Batches]) -> None:
    """Write the images in the layout that torchvision reads."""
    folder.mkdir(parents=True)
    for prefix, part in zip(("train", "t10k"), data, strict=True):
        for name, values in (("images-idx3", part.images.squeeze(1)), ("labels-idx1", part.labels)):
            header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
            content = header + values.to(torch.uint8).numpy().tobytes()
            (folder / f"{prefix}-{name}-ubyte").write_bytes(content)


def images_per_second(batches) -> float:
    """Time one whole pass."""
    num = 0
    start = time.perf_counter()
    for X, _ in batches:
        num += len(X)
    return num / (time.perf_counter() - start)


def copied_bytes_per_second() -> float:
    """Time a copy between two arrays far larger than any cache; read and written bytes count."""
    source = torch.ones(1 << 26)
    target = torch.empty_like(source)
    target.copy_(source)  # the first touch maps the pages
    start = time.perf_counter()
    for _ in range(4):
        target.copy_(source)
    return 4 * 2 * source.nbytes / (time.perf_counter() - start)


def interleave(
    ours: Callable[[], float], peer: Callable[[], float], repetitions: int
) -> tuple[list[float], list[float]]:
    """Measure both in turn after a warm-up, so that a change of the machine's speed hits both."""
    ours(), peer()
    pairs = [(ours(), peer()) for _ in range(repetitions)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def row(name: str, ours: list[float], peer: list[float], unit: str) -> Row:
    """Summarise the repetitions."""
    medians = statistics.median(ours), statistics.median(peer)
    spreads = [(max(x) - min(x)) / median for x, median in zip((ours, peer), medians, strict=True)]
    return Row(name, *medians, medians[0] / medians[1], unit, len(ours), *spreads)


def rows(repetitions: int = 5, batch_size: int = 256) -> list[Row]:
    """Measure.

    Parameters
    ----------
    repetitions : int
        Passes over the 60,000 training images per loader, after one that does not count.
    batch_size : int
        Images per batch.
    """
    with contextlib.redirect_stdout(io.StringIO()):
        data = load_data_fashion_mnist(batch_size)
    with d2l_module(data) as d2l:
        peer_train, _ = d2l.load_data_fashion_mnist(batch_size)
        speeds = interleave(
            lambda: images_per_second(data[0]), lambda: images_per_second(peer_train), repetitions
        )
    loader = row(f"loader, batch {batch_size}, d2l", *speeds, "images/s")
    ours, copies = interleave(
        lambda: images_per_second(data[0]) * BYTES_PER_IMAGE, copied_bytes_per_second, repetitions
    )
    gigabytes = [[value / 1e9 for value in values] for values in (ours, copies)]
    return [loader, row("loader's memory traffic, plain copy", *gigabytes, "GB/s")]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {os.cpu_count()} cores")
    print(f"{'ours, peer':38} {'ours':>15} {'peer':>15} {'ratio':>7}  unit      n")
    for r in rows(arguments.repetitions):
        ours = f"{r.ours:,.1f} ±{r.spread / 2:.0%}"
        peer = f"{r.peer:,.1f} ±{r.peer_spread / 2:.0%}"
        print(f"{r.name:38} {ours:>15} {peer:>15} {r.ratio:7.2f}  {r.unit:9} {r.repetitions}")


if __name__ == "__main__":
    main()

"""d2l 0.17.0, the reference to compare with: importing it, and giving it our data."""

import contextlib
import functools
import io
import os
import struct
import tempfile
import warnings
from pathlib import Path

from d2lmini import load_data_fashion_mnist

_FILES = (
    ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
)


@functools.cache
def load_d2l():
    """Import ``d2l.torch`` beside versions that are newer than it."""
    import matplotlib

    matplotlib.use("Agg")  # figures are made as in a notebook, but not looked at
    from IPython import display
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    import benchmarks.import_torchvision  # noqa: F401 (d2l imports torchvision, which may need it)

    for message in ("This DataLoader will create", "Attempting to set identical low and high"):
        warnings.filterwarnings("ignore", message)
    display.set_matplotlib_formats = set_matplotlib_formats  # where IPython had it until version 8
    from d2l import torch as d2l

    return d2l


def load_d2l_data(batch_size):
    """Call d2l's own loader on the images that `d2lmini` loads.

    d2l would download them to ``../data``; both sides must have the same images, on machines
    without a network too.

    Returns
    -------
    train_iter, test_iter : torch.utils.data.DataLoader
    """
    d2l = load_d2l()
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        write_idx(Path(folder) / "data" / "FashionMNIST" / "raw")
        work = Path(folder) / "work"
        work.mkdir()
        os.chdir(work)
        try:
            return d2l.load_data_fashion_mnist(batch_size)  # in memory from here on
        finally:
            os.chdir(before)


def write_idx(folder):
    """Write our images and labels as the four IDX files of Fashion-MNIST."""
    folder.mkdir(parents=True)
    for batches, (images, labels) in zip(quiet_data(256), _FILES, strict=True):
        num, _, height, width = batches.images.shape
        head = struct.pack(">IIII", 0x803, num, height, width)
        (folder / images).write_bytes(head + batches.images.numpy().tobytes())
        head = struct.pack(">II", 0x801, num)
        (folder / labels).write_bytes(head + batches.labels.byte().numpy().tobytes())


def quiet_data(batch_size):
    """Load our data without the line that says where they come from."""
    with quiet():
        return load_data_fashion_mnist(batch_size)


def quiet():
    """Swallow what is printed: d2l prints results and, outside a notebook, its figures' names."""
    return contextlib.redirect_stdout(io.StringIO())

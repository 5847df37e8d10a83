"""Images on the device of a rank: Fashion-MNIST, or synthetic ones."""

import contextlib
import sys

import torch

from d2lmini.data import load_data_fashion_mnist
from d2lmini.ddp.collect import check_equal_on_ranks, fingerprint


def load_images(device, num_synthetic=None):
    """Return the training and test images, the same on every rank.

    They stay on the device, as bytes: Fashion-MNIST takes 55 MB, and gathering a batch there is
    faster than copying it there. For a data set that does not fit, use a `DataLoader` with a
    `ShardedBatchSampler` as its ``batch_sampler``.

    Parameters
    ----------
    device : torch.device
    num_synthetic : int, optional
        Number of synthetic training images, with a sixth as many for testing; default:
        Fashion-MNIST.

    Returns
    -------
    train, test : tuple of (images, labels)
        uint8 of shape (n, 1, 28, 28) and int64 of shape (n,).

    Raises
    ------
    ValueError
        If the ranks have different data, or a file is missing or damaged.
    """
    if num_synthetic is not None:
        sets = [synthetic_images(num_synthetic), synthetic_images(num_synthetic // 6 + 1, seed=1)]
    else:
        with contextlib.redirect_stdout(sys.stderr):  # standard output is reserved for records
            sets = [(data.images, data.labels) for data in load_data_fashion_mnist(1)]
    marks = [fingerprint({"images": images, "labels": labels}) for images, labels in sets]
    check_equal_on_ranks("the data", marks, "Give all machines the same files.")
    return [(images.to(device), labels.to(device)) for images, labels in sets]


def pick(data, indices):
    """Return some images as inputs of the network, and their labels.

    Parameters
    ----------
    data : tuple of (images, labels)
        From `load_images`.
    indices : torch.Tensor
        int64, shape (n,).

    Returns
    -------
    X : torch.Tensor
        float32 in [0, 1], shape (n, 1, 28, 28), on the data's device.
    y : torch.Tensor
        int64, shape (n,), on the same device.

    Examples
    --------
    >>> X, y = pick(synthetic_images(10), torch.tensor([3, 5]))
    >>> X.shape, X.dtype, y.shape
    (torch.Size([2, 1, 28, 28]), torch.float32, torch.Size([2]))
    """
    images, labels = data
    indices = indices.to(labels.device)
    return images.index_select(0, indices) / 255, labels.index_select(0, indices)


def synthetic_images(num_images, seed=0, num_classes=10):
    """Make noisy copies of one random pattern per class.

    Parameters
    ----------
    num_images : int
    seed : int
        Seed of the noise and the labels; the patterns are always the same, so that different seeds
        give training and test sets of the same classes.
    num_classes : int

    Returns
    -------
    images : torch.Tensor
        dtype uint8, shape (num_images, 1, 28, 28).
    labels : torch.Tensor
        dtype int64, shape (num_images,).

    Examples
    --------
    >>> images, labels = synthetic_images(100)
    >>> images.shape, images.dtype, int(labels.max())
    (torch.Size([100, 1, 28, 28]), torch.uint8, 9)
    """
    patterns = torch.rand(num_classes, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed + 1)
    labels = torch.randint(num_classes, (num_images,), generator=generator)
    noise = torch.rand(num_images, 1, 28, 28, generator=generator)
    return (255 * (patterns[labels] + noise) / 2).to(torch.uint8), labels

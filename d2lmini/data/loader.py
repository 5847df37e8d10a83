"""Batches from images held in memory."""

import operator
from collections.abc import Iterator

import torch
from torch.nn import functional

from d2lmini.data.places import find_data


class Batches:
    """Batches of images in memory; can be iterated over any number of times.

    The images stay one tensor of bytes; the rows of a batch are gathered and converted when the
    batch is requested. That is fast enough without worker processes: see
    ``benchmarks/cases/loader.py``.

    Parameters
    ----------
    images : torch.Tensor
        dtype uint8, shape (N, 1, height, width).
    labels : torch.Tensor
        dtype int64, shape (N,).
    batch_size : int
        Images per batch; the last batch of a pass has the rest, so that a pass yields every image
        once.
    resize : int or tuple of int, optional
        Size of the yielded images, side or (height, width); None: unchanged.
    seed : int, optional
        Seed of a local generator that draws a new order for each pass; None: always in order.
    classes : tuple of str
        Name of each label.
    source : str
        Description of the data and their origin.

    Attributes
    ----------
    num_examples : int
        Number of images in one pass, N.

    Examples
    --------
    >>> images = torch.zeros(5, 1, 28, 28, dtype=torch.uint8)
    >>> batches = Batches(images, torch.arange(5), batch_size=2, seed=0)
    >>> [tuple(X.shape) for X, y in batches], len(batches)
    ([(2, 1, 28, 28), (2, 1, 28, 28), (1, 1, 28, 28)], 3)
    """

    def __init__(
        self,
        images: torch.Tensor,
        labels: torch.Tensor,
        batch_size: int,
        *,
        resize: int | tuple[int, int] | None = None,
        seed: int | None = None,
        classes: tuple[str, ...] = (),
        source: str = "",
    ):
        assert images.dtype == torch.uint8, images.dtype
        assert images.ndim == 4, images.shape
        assert len(images) == len(labels), (len(images), len(labels))
        self.images = images
        self.labels = labels
        self.batch_size = _check_count(batch_size)
        self.size = _check_size(resize)
        self.classes = classes
        self.source = source
        self._generator = None
        if seed is not None:
            self._generator = torch.Generator("cpu").manual_seed(_check_seed(seed))

    @property
    def num_examples(self) -> int:
        """Number of images in one pass."""
        return len(self.labels)

    def __len__(self) -> int:
        """Return the number of batches in one pass."""
        return -(-self.num_examples // self.batch_size)

    def __repr__(self) -> str:
        order = "in order" if self._generator is None else "shuffled"
        return (
            f"<{self.num_examples:,} images in {len(self):,} batches of up to {self.batch_size:,}, "
            f"{order}: {self.source}>"
        )

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Start a pass that yields X, float32 in [0, 1], (B, 1, h, w), and y, int64, (B,)."""
        # Drawn here, not at the first batch, so that only the order of the iter() calls matters.
        if self._generator is None:
            return self._pass(None)
        # On the CPU, whatever the default device is.
        order = torch.randperm(self.num_examples, generator=self._generator, device="cpu")
        return self._pass(order)

    def _pass(
        self, permutation: torch.Tensor | None
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for start in range(0, self.num_examples, self.batch_size):
            rows = slice(start, start + self.batch_size)
            if permutation is None:
                images, labels = self.images[rows], self.labels[rows].clone()
            else:
                # index_select copies whole images; images[index] copies pixels, 3 times slower.
                index = permutation[rows]
                images, labels = (
                    self.images.index_select(0, index),
                    self.labels.index_select(0, index),
                )
            yield to_float(images, self.size), labels


def to_float(images: torch.Tensor, size: tuple[int, int] | None = None) -> torch.Tensor:
    """Convert bytes to float32 in [0, 1] and resize.

    Resizing is bilinear with antialiasing, like `torchvision.transforms.Resize` on tensors.
    Resizing PIL images, as d2l does, rounds to bytes twice; the results differ by at most 1/255
    plus rounding.

    Parameters
    ----------
    images : torch.Tensor
        dtype uint8, shape (B, 1, H, W).
    size : tuple of int, optional
        (height, width); None: unchanged.

    Returns
    -------
    torch.Tensor
        dtype float32, shape (B, 1, height, width).
    """
    X = images.float().div_(255)
    if size is None or size == tuple(X.shape[-2:]):
        return X
    return functional.interpolate(X, size, mode="bilinear", antialias=True, align_corners=False)


def load_data_fashion_mnist(
    batch_size: int, resize: int | tuple[int, int] | None = None, *, seed: int = 0
) -> tuple[Batches, Batches]:
    """Load Fashion-MNIST into memory and print one line that says where it comes from.

    It is searched for in ``D2LMINI_DATA`` (if set, only there), in the user's cache, on the
    network. If it is nowhere, handwritten digits of the same shape replace it, and the line says
    so.

    Parameters
    ----------
    batch_size : int
        Images per batch; the last batch of a pass may be smaller, and a batch size above the
        number of images gives one batch.
    resize : int or tuple of int, optional
        Size of the yielded images, side or (height, width); default: 28 x 28.
    seed : int, default 0
        Seed of the training set's order. Equal seeds give equal sequences of passes; no global
        random state is read or changed.

    Returns
    -------
    train_iter, test_iter : Batches
        Can be iterated over any number of times; `train_iter` is reshuffled for each pass,
        `test_iter` is in order. Both yield ``X``, float32 in [0, 1] of shape (B, 1, 28, 28), and
        ``y``, int64 of shape (B,).

    Raises
    ------
    ValueError
        If `batch_size` or `resize` is not positive; as `DataError` if a data file is missing or
        damaged.

    Examples
    --------
    >>> train_iter, test_iter = load_data_fashion_mnist(256)  # doctest: +ELLIPSIS
    data: ...
    >>> X, y = next(iter(train_iter))
    >>> X.shape, y.shape
    (torch.Size([256, 1, 28, 28]), torch.Size([256]))
    """
    # Checked first: an invalid argument should not cost a download.
    _check_count(batch_size)
    _check_size(resize)
    _check_seed(seed)
    data = find_data()
    print(f"data: {data.source}")
    about = {"resize": resize, "classes": data.classes, "source": data.source}
    return (
        Batches(*data.train, batch_size, seed=seed, **about),
        Batches(*data.test, batch_size, **about),
    )


def _is_whole(value: object, low: int) -> bool:
    """Return whether `value` is an integer of any type (NumPy's too) and at least `low`."""
    try:
        return not isinstance(value, bool) and operator.index(value) >= low
    except TypeError:
        return False


def _check_count(value: object) -> int:
    if not _is_whole(value, 1):
        raise ValueError(
            f"batch_size is {value!r}; give a whole number of at least 1, for example 256"
        )
    return int(value)


def _check_seed(value: object) -> int:
    if not _is_whole(value, 0) or int(value) >= 2**63:
        raise ValueError(f"seed is {value!r}; give a non-negative integer, for example 0")
    return int(value)


def _check_size(resize: object) -> tuple[int, ...] | None:
    if resize is None:
        return None
    sides = resize if isinstance(resize, (tuple, list)) else (resize, resize)
    if len(sides) != 2 or not all(_is_whole(side, 1) for side in sides):
        raise ValueError(
            f"resize is {resize!r}; give a side in pixels such as 64, or (height, width), or None"
        )
    return tuple(int(side) for side in sides)

"""Fashion-MNIST: its files, its classes, and how to read it from a folder."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from d2lmini.data.idx import DataError, IdxFile, read_idx

FASHION_MNIST_CLASSES = (
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)

# The folders that torchvision downloads from; each file is there as NAME.gz.
MIRRORS = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)

# Train images, train labels, test images, test labels. The hashes are of the uncompressed files.
FILES = (
    IdxFile(
        "train-images-idx3-ubyte",
        (60000, 28, 28),
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    ),
    IdxFile(
        "train-labels-idx1-ubyte",
        (60000,),
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    ),
    IdxFile(
        "t10k-images-idx3-ubyte",
        (10000, 28, 28),
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    ),
    IdxFile(
        "t10k-labels-idx1-ubyte",
        (10000,),
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
)


@dataclass(frozen=True)
class ImageData:
    """A data set in memory.

    Parameters
    ----------
    train, test : tuple of torch.Tensor
        Images, uint8 of shape (N, 1, height, width), and labels, int64 of shape (N,).
    classes : tuple of str
        Name of each label.
    source : str
        Description of the data and their origin, for messages.
    """

    train: tuple[torch.Tensor, torch.Tensor]
    test: tuple[torch.Tensor, torch.Tensor]
    classes: tuple[str, ...]
    source: str


def fashion_mnist_labels(labels: Iterable[int]) -> list[str]:
    """Return the name of each Fashion-MNIST label.

    Parameters
    ----------
    labels : iterable of int
        Numbers from 0 to 9; may be a tensor of shape (n,).

    Returns
    -------
    list of str
        One name per label.

    Raises
    ------
    ValueError
        If a label is not between 0 and 9.

    Examples
    --------
    >>> fashion_mnist_labels(torch.tensor([9, 0]))
    ['ankle boot', 't-shirt']
    """
    numbers = [int(label) for label in labels]
    for number in numbers:
        if not 0 <= number < len(FASHION_MNIST_CLASSES):
            raise ValueError(f"label {number} does not exist; give numbers from 0 to 9")
    return [FASHION_MNIST_CLASSES[number] for number in numbers]


def read_folder(root: Path, place: str, remedy: str) -> ImageData:
    """Read the four files of Fashion-MNIST from a folder.

    Parameters
    ----------
    root : Path
        Holds the files in ``FashionMNIST/raw/`` (torchvision's layout) or directly.
    place : str
        Name of the folder in `ImageData.source`.
    remedy : str
        What the user should do; appended to every error message.

    Raises
    ------
    DataError
        If a file is missing or is not the published one.
    """
    try:
        paths = _find_files(root)
        arrays = [read_idx(path, file) for path, file in zip(paths, FILES, strict=True)]
    except OSError as error:
        raise DataError(f"{root}: cannot be read ({error.strerror}). {remedy}") from error
    except DataError as error:
        raise DataError(f"{error}. {remedy}") from error
    train_images, train_labels, test_images, test_labels = arrays
    num_train, num_test = len(train_labels), len(test_labels)
    return ImageData(
        train=(train_images.unsqueeze(1), train_labels.long()),  # (N, 1, 28, 28), (N,)
        test=(test_images.unsqueeze(1), test_labels.long()),
        classes=FASHION_MNIST_CLASSES,
        source=f"Fashion-MNIST, {num_train:,} + {num_test:,} images, from {place}",
    )


def _find_files(root: Path) -> list[Path]:
    """Return the paths of the files in the first candidate folder that has any of them."""
    candidates = (root / "FashionMNIST" / "raw", root)
    for folder in candidates:
        paths = [file.find(folder) for file in FILES]
        missing = [file.name for file, path in zip(FILES, paths, strict=True) if path is None]
        if not missing:
            return paths
        if len(missing) < len(FILES):
            raise DataError(f"{folder}: {', '.join(missing)} missing")
    state = "no Fashion-MNIST files there" if root.is_dir() else "no such folder"
    raise DataError(
        f"{root}: {state} (looked for {FILES[0].name} and the others in {candidates[0]} "
        "and in the folder itself)"
    )

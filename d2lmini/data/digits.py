"""The embedded data set: handwritten digits, for machines that cannot download Fashion-MNIST.

scikit-learn contains 1,797 handwritten digits of 8 x 8 pixels (E. Alpaydin and C. Kaynak, *Optical
Recognition of Handwritten Digits*, UCI Machine Learning Repository, 1998, doi:10.24432/C50P49).
Enlarged to 24 x 24 and placed at random positions in 28 x 28 they have the shape of Fashion-
MNIST, and LeNet learns them.
"""

import torch

from d2lmini.data.fashion import ImageData

_NUM_TRAIN_ORIGINALS = 1500  # the remaining 297 are for testing
_SCALE = 3  # 8 x 8 to 24 x 24
_SIZE = 28


def make_digits(num_train: int = 60000, num_test: int = 10000) -> ImageData:
    """Return the embedded data set, bit-identical on every machine.

    Training and test images come from different originals, so that no test image is a shifted
    copy of a training image.

    Parameters
    ----------
    num_train, num_test : int
        Number of images; originals are used in turn, each time at a random position. The
        defaults are those of Fashion-MNIST, for as many batches per epoch and bytes to copy.
    """
    from sklearn.datasets import load_digits  # slow to import and rarely needed

    with torch.device("cpu"):  # whatever the default device is
        return _make(load_digits(), num_train, num_test)


def _make(bunch, num_train: int, num_test: int) -> ImageData:
    originals = torch.from_numpy(bunch.images).round().long()  # (1797, 8, 8), values 0 to 16
    labels = torch.from_numpy(bunch.target).long()  # (1797,)
    generator = torch.Generator("cpu").manual_seed(0)
    order = torch.randperm(len(labels), generator=generator)
    large = enlarge(originals)

    def draw(chosen: torch.Tensor, num: int) -> tuple[torch.Tensor, torch.Tensor]:
        index = chosen[torch.arange(num) % len(chosen)]
        return _place(large[index], generator), labels[index]

    return ImageData(
        train=draw(order[:_NUM_TRAIN_ORIGINALS], num_train),
        test=draw(order[_NUM_TRAIN_ORIGINALS:], num_test),
        classes=tuple("0123456789"),
        source=f"handwritten digits, {num_train:,} + {num_test:,} images",
    )


def enlarge(originals: torch.Tensor) -> torch.Tensor:
    """Interpolate (n, 8, 8) values 0 to 16 bilinearly to (n, 24, 24) values 0 to 255.

    It computes in integers, so that no rounding mode or processor can change a pixel.
    """
    size = originals.shape[-1]
    weights = torch.zeros(size * _SCALE, size, dtype=torch.long)  # in units of 1/3
    for row in range(size * _SCALE):
        # Pixel centres: output row r lies at (r + 0.5) / 3 - 0.5 = low + fraction / 3.
        low, fraction = divmod(row - 1, _SCALE)
        weights[row, max(low, 0)] += _SCALE - fraction
        weights[row, min(low + 1, size - 1)] += fraction
    # Do not rely on integer kernels of einsum and matmul; a broadcast product is exact.
    rows = (weights[None, :, :, None] * originals[:, None, :, :]).sum(2)  # (n, 24, 8)
    both = (rows[:, :, None, :] * weights[None, None, :, :]).sum(3)  # (n, 24, 24), units of 1/9
    full = 16 * _SCALE**2
    return ((2 * 255 * both + full) // (2 * full)).to(torch.uint8)


def _place(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Place each (24, 24) image at a random position on black: (n, 1, 28, 28)."""
    num, size = images.shape[0], images.shape[-1]
    shifts = torch.randint(0, _SIZE - size + 1, (2, num), generator=generator)
    out = torch.zeros(num, 1, _SIZE, _SIZE, dtype=torch.uint8)
    for top in range(_SIZE - size + 1):
        for left in range(_SIZE - size + 1):
            here = (shifts[0] == top) & (shifts[1] == left)
            out[here, 0, top : top + size, left : left + size] = images[here]
    return out

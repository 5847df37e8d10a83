"""Batches from memory, resizing, the embedded digits, and the loader as a whole."""

import hashlib
import os
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import tiny_data
from torch.nn import functional

from benchmarks.import_torchvision import torchvision
from d2lmini.data import (
    FASHION_MNIST_CLASSES,
    Batches,
    fashion_mnist_labels,
    load_data_fashion_mnist,
)
from d2lmini.data.digits import enlarge, make_digits
from d2lmini.data.loader import to_float


def numbered(num, batch_size, **options):
    """Return Batches whose labels are the numbers of the images."""
    images = torch.randint(0, 256, (num, 1, 28, 28), dtype=torch.uint8)
    return Batches(images, torch.arange(num), batch_size, **options)


def passes(batches, num):
    """Return the order of the images in each of `num` passes."""
    return [torch.cat([y for _, y in batches]).tolist() for _ in range(num)]


# --- batches


@pytest.mark.slow
@settings(deadline=None)
@given(num=st.integers(1, 40), batch_size=st.integers(1, 50), seed=st.sampled_from([None, 0, 7]))
def test_pass_gives_every_image_once(num, batch_size, seed):
    batches = numbered(num, batch_size, seed=seed)
    sizes = [len(y) for _, y in batches]
    assert len(batches) == len(sizes)
    assert sizes[:-1] == [batch_size] * (len(sizes) - 1)
    assert 1 <= sizes[-1] <= batch_size
    (order,) = passes(batches, 1)
    assert sorted(order) == list(range(num))
    assert batches.num_examples == num


def test_batch_shapes_dtypes_and_range():
    batches = numbered(10, 4, seed=0)
    for X, y in batches:
        assert X.shape == (len(y), 1, 28, 28)
        assert X.dtype == torch.float32
        assert y.dtype == torch.int64
        assert X.is_contiguous()
        assert X.min() >= 0
        assert X.max() <= 1
    assert "10 images in 3 batches" in repr(batches)


def test_images_and_labels_stay_together():
    batches = numbered(30, 8, seed=3)
    for X, y in batches:
        assert torch.equal(X, batches.images[y] / 255)


def test_writing_into_a_batch_leaves_the_data_alone():
    for seed in (None, 0):
        batches = numbered(6, 3, seed=seed)
        images, labels = batches.images.clone(), batches.labels.clone()
        for X, y in batches:
            X.zero_()
            y.zero_()
        assert torch.equal(batches.images, images)
        assert torch.equal(batches.labels, labels)


def check_shuffling(make):
    """Check passes of `make(seed)`: all different, and determined by the seed alone."""
    torch.manual_seed(1)
    first = passes(make(0), 3)
    assert len({tuple(order) for order in first}) == 3, "passes repeat"
    torch.manual_seed(2)
    assert passes(make(0), 3) == first, "the seed does not determine the passes"
    assert passes(make(1), 3) != first, "the seed has no effect"
    before = torch.get_rng_state()
    passes(make(0), 1)
    assert torch.equal(torch.get_rng_state(), before), "the global generator was used"


class OneOrder(Batches):
    """Wrong: every pass has the same order."""

    def __iter__(self):
        self._generator.manual_seed(0)
        return super().__iter__()


class GlobalOrder(Batches):
    """Wrong: shuffles with the global generator."""

    def __iter__(self):
        return self._pass(torch.randperm(self.num_examples))


def test_shuffling():
    data = torch.zeros(50, 1, 28, 28, dtype=torch.uint8), torch.arange(50)
    check_shuffling(lambda seed: Batches(*data, 8, seed=seed))
    with pytest.raises(AssertionError, match="passes repeat"):
        check_shuffling(lambda seed: OneOrder(*data, 8, seed=seed))
    with pytest.raises(AssertionError, match="seed does not determine"):
        check_shuffling(lambda seed: GlobalOrder(*data, 8, seed=seed))


def test_order_is_drawn_when_a_pass_begins():
    one, other = numbered(50, 8, seed=0), numbered(50, 8, seed=0)
    first, second = iter(one), iter(one)
    late = torch.cat([y for _, y in second]).tolist()
    early = torch.cat([y for _, y in first]).tolist()
    assert [early, late] == passes(other, 2)


def test_unfinished_pass_counts_as_a_pass():
    one, other = numbered(50, 8, seed=0), numbered(50, 8, seed=0)
    next(iter(one))
    assert passes(one, 1) == passes(other, 2)[1:]


@pytest.mark.slow
def test_default_device_and_dtype_have_no_effect():
    def first_batch():
        batches = Batches(*make_digits(50, 1).train, 8, seed=0, resize=14)
        return next(iter(batches))

    X, y = first_batch()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            other_X, other_y = first_batch()
    finally:
        torch.set_default_dtype(torch.float32)
    assert other_X.dtype == torch.float32
    assert torch.equal(X, other_X)
    assert torch.equal(y, other_y)


def test_test_images_come_in_order():
    assert passes(numbered(10, 4), 2) == [list(range(10))] * 2


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        ({"batch_size": [0, -1, 2.0, "8", None, True]}, "a whole number of at least 1"),
        ({"resize": [0, -4, 1.5, (8,), (8, 0), (8, 8, 8), "8", True]}, "a side in pixels"),
        ({"seed": [-1, 0.5, None, 2**63]}, "a non-negative integer"),
    ],
)
def test_bad_argument(arguments, remedy):
    ((name, values),) = arguments.items()
    for value in values:
        with pytest.raises(ValueError, match=re.escape(f"{name} is {value!r}; give {remedy}")):
            load_data_fashion_mnist(**{"batch_size": 8, name: value})


def test_numpy_numbers_are_numbers():
    assert len(numbered(10, np.int64(4), resize=np.int32(14))) == 3


# --- conversion and resizing against torchvision


def as_d2l_does(images, size):
    """Resize as PIL images, then convert."""
    steps = [torchvision.transforms.Resize(size), torchvision.transforms.ToTensor()]
    transform = torchvision.transforms.Compose(steps)
    pil = torchvision.transforms.functional.to_pil_image
    return torch.stack([transform(pil(image)) for image in images])


def test_conversion_equals_to_tensor():
    every = torch.arange(784).remainder(256).to(torch.uint8).view(1, 1, 28, 28)
    assert torch.equal(to_float(every), as_d2l_does(every, (28, 28)))


def check_resize(resize_function, size):
    """Check that resizing is torchvision's on tensors, and within rounding of PIL's."""
    images = make_digits(20, 1).train[0]
    ours = resize_function(images, size)
    on_tensors = torchvision.transforms.functional.resize(images / 255, size, antialias=True)
    torch.testing.assert_close(ours, on_tensors, rtol=0, atol=1e-6)
    difference = (ours - as_d2l_does(images, size)).abs().max().item()
    assert difference <= 1.1 / 255, difference


def without_antialias(images, size):
    """Wrong: skips pixels when it makes images smaller."""
    return functional.interpolate(images / 255, size, mode="bilinear", align_corners=False)


@pytest.mark.parametrize("size", [(14, 14), (9, 20), (28, 28), (64, 64), (96, 33)])
def test_resize(size):
    check_resize(to_float, size)


def test_resize_without_antialiasing_is_rejected():
    with pytest.raises(AssertionError):
        check_resize(without_antialias, (9, 20))


def test_resize_of_batches():
    assert next(iter(numbered(5, 4, resize=64)))[0].shape == (4, 1, 64, 64)
    assert next(iter(numbered(5, 4, resize=(20, 30))))[0].shape == (4, 1, 20, 30)


# --- embedded digits


def outlines(images):
    """Return each image without its black margin, as bytes: the same wherever it was placed."""
    found = []
    for image in images[:, 0]:
        rows, columns = image.amax(1).nonzero(), image.amax(0).nonzero()
        cut = image[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        found.append((cut.shape, cut.numpy().tobytes()))
    return set(found)


def check_no_leak(train_images, test_images):
    assert not outlines(train_images) & outlines(test_images), "originals are shared"


@pytest.mark.slow
def test_digits():
    data = make_digits(3000, 600)
    images, labels = data.train
    assert images.shape == (3000, 1, 28, 28)
    assert images.dtype == torch.uint8
    assert images.max() == 255
    assert torch.bincount(labels, minlength=10).min() > 250
    assert len(outlines(images)) == 1500
    check_no_leak(images, data.test[0])
    assert data.classes[3] == "3"
    assert not torch.equal(images[0], images[1500])  # the same original, elsewhere


@pytest.mark.slow
def test_splitting_after_enlarging_is_rejected():
    images = torch.cat(
        [part[0] for part in (make_digits(3000, 600).train, make_digits(1, 600).test)]
    )
    images = images[torch.randperm(len(images), generator=torch.Generator().manual_seed(0))]
    with pytest.raises(AssertionError, match="originals are shared"):
        check_no_leak(images[:3000], images[3000:])


def test_digits_are_the_same_on_every_machine():
    state = torch.get_rng_state()
    data = make_digits(3000, 600)
    assert torch.equal(torch.get_rng_state(), state)
    content = b"".join(t.numpy().astype("<i8").tobytes() for t in (*data.train, *data.test))
    assert (
        hashlib.sha256(content).hexdigest()
        == "958329c5ddf763e38e48093123a444a58a436d39bf67962bd50c719184aa5c06"
    )


def test_enlarging_is_bilinear():
    originals = torch.arange(64).reshape(1, 8, 8).remainder(17)
    exact = functional.interpolate(
        originals[None].double() * 255 / 16, (24, 24), mode="bilinear", align_corners=False
    )
    assert (enlarge(originals).double() - exact[0]).abs().max() <= 0.5 + 1e-9


# --- the loader as a whole, on small files


def test_load_prints_one_line_without_a_path(tmp_path, monkeypatch, capsys):
    tiny_data.use(monkeypatch, tmp_path)
    monkeypatch.setenv("D2LMINI_DATA", str(tiny_data.write(tmp_path / "given")))
    train_iter, test_iter = load_data_fashion_mnist(8)
    line = "data: Fashion-MNIST, 20 + 10 images, from D2LMINI_DATA\n"
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (line, "")
    assert line == f"data: {train_iter.source}\n" == f"data: {test_iter.source}\n"
    assert (len(train_iter), len(test_iter)) == (3, 2)
    assert passes(test_iter, 1) == [list(range(10))]
    assert train_iter.classes == FASHION_MNIST_CLASSES


def test_switch_to_the_digits_is_printed(tmp_path, monkeypatch, capsys):
    tiny_data.use(monkeypatch, tmp_path)
    _, test_iter = load_data_fashion_mnist(8)
    line = (
        "data: handwritten digits, 20 + 10 images, embedded (Fashion-MNIST could not be "
        "downloaded: the connection failed, ConnectionError; set D2LMINI_DATA to a folder that "
        "holds it)\n"
    )
    assert capsys.readouterr() == (line, "")
    assert len(test_iter) == 2


@pytest.mark.skipif(not os.environ.get("D2LMINI_DATA"), reason="D2LMINI_DATA is not set")
def test_real_data(capsys):
    train_iter, test_iter = load_data_fashion_mnist(256)
    expected = "data: Fashion-MNIST, 60,000 + 10,000 images, from D2LMINI_DATA\n"
    assert capsys.readouterr().out == expected
    assert (len(train_iter), len(test_iter)) == (235, 40)
    assert (train_iter.num_examples, test_iter.num_examples) == (60000, 10000)
    assert torch.bincount(train_iter.labels).tolist() == [6000] * 10
    assert torch.bincount(test_iter.labels).tolist() == [1000] * 10
    assert fashion_mnist_labels(test_iter.labels[:3]) == ["ankle boot", "pullover", "trouser"]

"""Reading the files of Fashion-MNIST, whole and damaged."""

import contextlib
import gzip
import os
import threading
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from support.samples import tiny_data
from support.samples.damage import flips_and_cuts
from support.samples.tiny_data import CONTENTS, IMAGES, LABELS

from benchmarks.import_torchvision import torchvision
from d2lmini.data import FASHION_MNIST_CLASSES, DataError, fashion_mnist_labels
from d2lmini.data import idx as idx_module
from d2lmini.data.fashion import FILES as PUBLISHED
from d2lmini.data.fashion import MIRRORS, read_folder


@pytest.fixture(autouse=True)
def _tiny_files(monkeypatch, tmp_path):
    tiny_data.use(monkeypatch, tmp_path)


def read_tiny(root):
    return read_folder(root, "here", "Do this.")


def read_values(root):
    data = read_tiny(root)
    return [tensor.tolist() for tensor in (*data.train, *data.test)]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("below", ["", "FashionMNIST/raw"])
def test_read_folder(tmp_path, compressed, below):
    tiny_data.write(tmp_path / below, compressed)
    data = read_tiny(tmp_path)
    images, labels = data.train
    assert images.shape == (20, 1, 28, 28)
    assert images.dtype == torch.uint8
    assert labels.tolist() == [*range(10)] * 2
    assert data.test[0].shape == (10, 1, 28, 28)
    assert data.source == "Fashion-MNIST, 20 + 10 images, from here"
    assert images.flatten().tolist() == list(CONTENTS[IMAGES][16:])


def test_reading_equals_torchvision(tmp_path):
    folder = tiny_data.write(tmp_path)
    reference = torchvision.datasets.mnist.read_image_file(str(folder / IMAGES))
    assert torch.equal(read_tiny(tmp_path).train[0].squeeze(1), reference)


def changed(name, position, value):
    content = bytearray(CONTENTS[name])
    content[position] = value
    return bytes(content)


NO_IMAGES = r"not an IDX file of unsigned bytes of shape \(20, 28, 28\)"
NO_LABELS = r"not an IDX file of unsigned bytes of shape \(20,\)"
DAMAGE = {
    "empty": (IMAGES, b"", NO_IMAGES),
    "web page": (IMAGES, b"<html>Please log in</html>", NO_IMAGES),
    "floats": (IMAGES, changed(IMAGES, 2, 13), NO_IMAGES),
    "truncated": (IMAGES, CONTENTS[IMAGES][:-1], "truncated, 15,695 of 15,696 bytes"),
    "too long": (IMAGES, CONTENTS[IMAGES] + b"x", "too long, 15,696 bytes are expected"),
    "other width": (IMAGES, changed(IMAGES, 15, 29), NO_IMAGES),
    "images for labels": (LABELS, CONTENTS[IMAGES], NO_LABELS),
    "one bit": (IMAGES, changed(IMAGES, 500, CONTENTS[IMAGES][500] ^ 1), "corrupted"),
}


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_file_is_named(tmp_path, kind, compressed):
    name, content, message = DAMAGE[kind]
    tiny_data.write(tmp_path, compressed, **{name: content})
    with pytest.raises(DataError, match=message) as caught:
        read_tiny(tmp_path)
    assert str(tmp_path / name) in str(caught.value)
    assert str(caught.value).endswith(". Do this.")


@pytest.mark.parametrize("cut", [5, 200])
def test_truncated_gzip_file(tmp_path, cut):
    tiny_data.write(tmp_path, compressed=True)
    path = tmp_path / f"{IMAGES}.gz"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz: truncated or corrupted gzip"):
        read_tiny(tmp_path)


def check_flips_and_cuts(folder):
    """Check that a file with a flipped bit or a lost end is refused, or gives the same data."""
    whole = read_values(folder)
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        for damaged in flips_and_cuts(content, 15):
            path.write_bytes(damaged)
            with contextlib.suppress(DataError):
                assert read_values(folder) == whole, "damaged data were taken"
        path.write_bytes(content)


@pytest.mark.parametrize("compressed", [False, True])
def test_flipped_bits_and_lost_ends_are_refused(tmp_path, compressed):
    check_flips_and_cuts(tiny_data.write(tmp_path / "data", compressed))


def test_reading_without_the_hash_is_rejected(tmp_path, monkeypatch):
    any_hash = SimpleNamespace(hexdigest=lambda: mock.ANY)  # is equal to all
    monkeypatch.setattr(idx_module, "hashlib", SimpleNamespace(sha256=lambda _: any_hash))
    with pytest.raises(AssertionError, match="damaged data were taken"):
        check_flips_and_cuts(tiny_data.write(tmp_path / "data"))


@pytest.mark.slow
@pytest.mark.parametrize("compressed", [False, True])
def test_no_more_than_the_expected_bytes_are_read(tmp_path, compressed):
    tiny_data.write(tmp_path, compressed)
    if compressed:
        content = gzip.compress(CONTENTS[IMAGES] + bytes(50_000_000))  # a bomb
        (tmp_path / f"{IMAGES}.gz").write_bytes(content)
    else:
        os.truncate(tmp_path / IMAGES, 50_000_000)
    tracemalloc.start()
    with pytest.raises(DataError, match="too long"):
        read_tiny(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000, f"{peak:,} bytes of memory"


def test_missing_files(tmp_path):
    with pytest.raises(DataError, match=r"nowhere: no such folder .* Do this"):
        read_tiny(tmp_path / "nowhere")
    with pytest.raises(DataError, match="no Fashion-MNIST files there"):
        read_tiny(tmp_path)
    tiny_data.write(tmp_path)
    (tmp_path / LABELS).unlink()
    with pytest.raises(DataError, match=f"{LABELS} missing. Do this"):
        read_tiny(tmp_path)


def make_pipe(path):
    os.mkfifo(path)
    # For a reader that opens the pipe: it would get an empty file instead of waiting for ever.
    threading.Thread(target=path.write_bytes, args=(b"",), daemon=True).start()


@pytest.mark.parametrize("make", [Path.mkdir, make_pipe, lambda path: path.symlink_to("/dev/zero")])
def test_something_else_in_place_of_a_file(tmp_path, make):
    tiny_data.write(tmp_path)
    (tmp_path / IMAGES).unlink()
    make(tmp_path / IMAGES)
    with pytest.raises(DataError, match=rf"{IMAGES}: cannot be read \(not a regular file\)\. Do"):
        read_tiny(tmp_path)


def test_unreadable_file(tmp_path, monkeypatch):
    def refuse(path, mode):  # root may read everything, so the refusal is acted
        raise PermissionError(13, "Permission denied", str(path))

    tiny_data.write(tmp_path)
    monkeypatch.setattr(idx_module, "open", refuse, raising=False)
    with pytest.raises(DataError, match=r"ubyte: cannot be read \(Permission denied\)\. Do this."):
        read_tiny(tmp_path)


def test_folder_that_cannot_be_looked_at():
    with pytest.raises(DataError, match=r"xxx: cannot be read \(File name too long\)\. Do this."):
        read_tiny(Path("/", "x" * 300))


def test_labels_have_names():
    assert fashion_mnist_labels([9, 0]) == ["ankle boot", "t-shirt"]
    published = [name.lower() for name in torchvision.datasets.FashionMNIST.classes]
    published[0] = "t-shirt"  # theirs: t-shirt/top
    assert list(FASHION_MNIST_CLASSES) == published
    with pytest.raises(ValueError, match="label 10 does not exist"):
        fashion_mnist_labels(torch.tensor([10]))


def test_specification_is_that_of_the_published_data():
    assert [file.size for file in PUBLISHED] == [47040016, 60008, 7840016, 10008]
    names = [f"{file.name}.gz" for file in PUBLISHED]
    assert names == [name for name, _ in torchvision.datasets.FashionMNIST.resources]
    assert list(MIRRORS) == torchvision.datasets.FashionMNIST.mirrors

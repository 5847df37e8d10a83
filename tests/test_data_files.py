"""Reading the files of Fashion-MNIST, whole and damaged."""

import gzip
from pathlib import Path

import pytest
import tiny_idx
import torch

from d2lmini._torchvision import torchvision
from d2lmini.data import FASHION_MNIST_CLASSES, DataError, fashion_mnist_labels
from d2lmini.data import idx as idx_module
from d2lmini.data.fashion import FASHION_MNIST_FILES, read_folder
from d2lmini.data.idx import read_idx

IMAGES = "train-images-idx3-ubyte"
LABELS = "train-labels-idx1-ubyte"


def read_tiny(root):
    return read_folder(Path(root), "here", "Do this.", tiny_idx.FILES)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("below", ["", "FashionMNIST/raw"])
def test_read_folder(tmp_path, compressed, below):
    tiny_idx.write(tmp_path / below, compressed)
    data = read_tiny(tmp_path)
    images, labels = data.train
    assert images.shape == (20, 1, 28, 28)
    assert images.dtype == torch.uint8
    assert labels.tolist() == [*range(10)] * 2
    assert data.test[0].shape == (10, 1, 28, 28)
    assert data.source == "Fashion-MNIST, 20 + 10 images, from here"
    assert images.flatten().tolist() == list(tiny_idx.CONTENTS[IMAGES][16:])


def test_reading_equals_torchvision(tmp_path):
    folder = tiny_idx.write(tmp_path)
    reference = torchvision.datasets.mnist.read_image_file(str(folder / IMAGES))
    assert torch.equal(read_tiny(tmp_path).train[0].squeeze(1), reference)


def changed(name, position, value):
    content = bytearray(tiny_idx.CONTENTS[name])
    content[position] = value
    return bytes(content)


DAMAGE = {
    "empty": (IMAGES, b"", "not an IDX file"),
    "web page": (IMAGES, b"<html>Please log in</html>", "not an IDX file"),
    "floats": (IMAGES, changed(IMAGES, 2, 13), "not an IDX file"),
    "header only half there": (IMAGES, tiny_idx.CONTENTS[IMAGES][:9], "not an IDX file"),
    "truncated": (IMAGES, tiny_idx.CONTENTS[IMAGES][:-1], r"truncated, 15,695 of 15,696 bytes"),
    "too long": (IMAGES, tiny_idx.CONTENTS[IMAGES] + b"x", "1 bytes too long"),
    "other width": (IMAGES, changed(IMAGES, 15, 29), r"shape \(20, 28, 29\) instead of"),
    "other count": (LABELS, changed(LABELS, 7, 19), r"shape \(19,\) instead of \(20,\)"),
    "images for labels": (LABELS, tiny_idx.CONTENTS[IMAGES], "shape .* instead of"),
    "label": (LABELS, changed(LABELS, 12, 10), "holds the label 10; labels are 0 to 9"),
    "one bit": (IMAGES, changed(IMAGES, 500, tiny_idx.CONTENTS[IMAGES][500] ^ 1), "corrupted"),
}


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_file_is_named(tmp_path, kind, compressed):
    name, content, message = DAMAGE[kind]
    tiny_idx.write(tmp_path, compressed, **{name: content})
    with pytest.raises(DataError, match=message) as caught:
        read_tiny(tmp_path)
    assert str(tmp_path / name) in str(caught.value)
    assert str(caught.value).endswith("Do this.")


@pytest.mark.parametrize("cut", [5, 200])
def test_truncated_gzip_file(tmp_path, cut):
    tiny_idx.write(tmp_path, compressed=True)
    path = tmp_path / f"{IMAGES}.gz"
    path.write_bytes(gzip.compress(tiny_idx.CONTENTS[IMAGES])[:cut])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz: truncated or corrupted gzip"):
        read_tiny(tmp_path)


def test_missing_files(tmp_path):
    with pytest.raises(DataError, match=r"nowhere: no such folder .* Do this"):
        read_tiny(tmp_path / "nowhere")
    with pytest.raises(DataError, match="no Fashion-MNIST files there"):
        read_tiny(tmp_path)
    tiny_idx.write(tmp_path)
    (tmp_path / LABELS).unlink()
    with pytest.raises(DataError, match=f"{LABELS} missing. Do this"):
        read_tiny(tmp_path)


def test_folder_in_place_of_a_file(tmp_path):
    tiny_idx.write(tmp_path)
    (tmp_path / IMAGES).unlink()
    (tmp_path / IMAGES).mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        read_tiny(tmp_path)


def test_unreadable_file(tmp_path, monkeypatch):
    def refuse(path, mode):  # root may read everything, so the refusal is acted
        raise PermissionError(13, "Permission denied", str(path))

    tiny_idx.write(tmp_path)
    monkeypatch.setattr(idx_module, "open", refuse, raising=False)
    with pytest.raises(DataError, match=r"ubyte: cannot be read \(Permission denied\)\. Fix it."):
        read_idx(tmp_path / IMAGES, tiny_idx.FILES[0], "Fix it.")


def test_labels_have_names():
    assert fashion_mnist_labels([9, 0]) == ["ankle boot", "t-shirt"]
    published = [name.lower() for name in torchvision.datasets.FashionMNIST.classes]
    published[0] = "t-shirt"  # theirs: t-shirt/top
    assert list(FASHION_MNIST_CLASSES) == published
    with pytest.raises(ValueError, match="label 10 does not exist"):
        fashion_mnist_labels(torch.tensor([10]))


def test_specification_is_that_of_the_published_data():
    sizes = [file.size for file in FASHION_MNIST_FILES]
    assert sizes == [47040016, 60008, 7840016, 10008]
    names = [f"{file.name}.gz" for file in FASHION_MNIST_FILES]
    assert names == [name for name, _ in torchvision.datasets.FashionMNIST.resources]

"""A data set of 20 + 10 images in IDX files, for tests that need no real data."""

import gzip
import hashlib
import struct
from pathlib import Path

import numpy as np

from d2lmini.data.idx import IdxFile


def to_idx(values: np.ndarray) -> bytes:
    """Return the content of an IDX file of unsigned bytes."""
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.astype(np.uint8).tobytes()


def _arrays(num: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.integers(0, 256, (num, 28, 28)), np.arange(num) % 10


def _contents() -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    names = iter(("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"))
    arrays = (*_arrays(20, rng), *_arrays(10, rng))
    return {f"{next(names)}-ubyte": to_idx(array) for array in arrays}


def describe(name: str, content: bytes) -> IdxFile:
    """Return what a file with this content must contain."""
    shape = struct.unpack_from(f">{content[3]}I", content, 4)
    return IdxFile(name, shape, hashlib.sha256(content).hexdigest())


CONTENTS = _contents()
FILES = tuple(describe(name, content) for name, content in CONTENTS.items())


def write(folder: Path, compressed: bool = False, **changes: bytes) -> Path:
    """Write the files into `folder` and return it; `changes` replaces contents by file name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {**CONTENTS, **changes}.items():
        if compressed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return folder

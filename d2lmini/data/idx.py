"""Read IDX files, the format in which MNIST and its relatives are published, and distrust them.

An IDX file is two zero bytes, a type byte (8: unsigned bytes), the number of dimensions, each
dimension as a big-endian 32-bit integer, then the values in row-major order.
"""

import gzip
import hashlib
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import torch

_UNSIGNED_BYTE = 8


class DataError(ValueError):
    """A data file is missing, unreadable or not what it should be.

    The message names the file and says what to do.
    """


@dataclass(frozen=True)
class IdxFile:
    """What an IDX file must contain.

    Parameters
    ----------
    name : str
        File name without a folder; the compressed file is called ``name + ".gz"``.
    shape : tuple of int
        The dimensions that its header must state.
    sha256 : str
        Hash of the uncompressed file, in hexadecimal.
    """

    name: str
    shape: tuple[int, ...]
    sha256: str

    @property
    def size(self) -> int:
        """Bytes of the uncompressed file, header included."""
        return 4 + 4 * len(self.shape) + math.prod(self.shape)


def find_file(folder: Path, expected: IdxFile) -> Path | None:
    """Return the path of the file in `folder`, plain or compressed, or None."""
    for path in (folder / expected.name, folder / f"{expected.name}.gz"):
        if path.exists():
            return path
    return None


def read_idx(path: Path, expected: IdxFile, remedy: str) -> torch.Tensor:
    """Read an IDX file of unsigned bytes and check its header, its length and its hash.

    Parameters
    ----------
    path : Path
        The file; a name ending in ``.gz`` is uncompressed while reading.
    expected : IdxFile
        What it must contain.
    remedy : str
        What the reader of an error message should do; ends every message.

    Returns
    -------
    torch.Tensor
        dtype uint8, of shape ``expected.shape``.

    Raises
    ------
    DataError
        If the file cannot be read or is not exactly the expected one.
    """
    content = _read_bytes(path, remedy)
    header = 4 + 4 * len(expected.shape)
    dims = _read_dims(content)
    if dims is None:
        raise DataError(f"{path}: not an IDX file of unsigned bytes. {remedy}")
    if dims != expected.shape:
        raise DataError(
            f"{path}: holds an array of shape {dims} instead of {expected.shape}. {remedy}"
        )
    if len(content) < expected.size:
        raise DataError(
            f"{path}: truncated, {len(content):,} of {expected.size:,} bytes are there. {remedy}"
        )
    if len(content) > expected.size:
        raise DataError(f"{path}: {len(content) - expected.size:,} bytes too long. {remedy}")
    values = torch.frombuffer(content, dtype=torch.uint8, offset=header).reshape(expected.shape)
    if len(expected.shape) == 1 and values.max() > 9:
        raise DataError(f"{path}: holds the label {values.max()}; labels are 0 to 9. {remedy}")
    if hashlib.sha256(content).hexdigest() != expected.sha256:
        raise DataError(
            f"{path}: corrupted, its SHA-256 is not that of the published file. {remedy}"
        )
    return values


def _read_bytes(path: Path, remedy: str) -> bytearray:
    """Return the (uncompressed) content in memory that a tensor may share and write to."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            return bytearray(file.read())
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: truncated or corrupted gzip file ({error}). {remedy}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}). {remedy}") from error


def _read_dims(content: bytearray) -> tuple[int, ...] | None:
    """Return the dimensions that the header states, None if it is no such header."""
    if len(content) < 4 or content[:3] != bytes([0, 0, _UNSIGNED_BYTE]):
        return None
    num_dims = content[3]
    if len(content) < 4 + 4 * num_dims:
        return None
    return struct.unpack_from(f">{num_dims}I", content, offset=4)

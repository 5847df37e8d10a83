"""Read and validate IDX files, the format of MNIST and its relatives.

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

GZIP_ERRORS = (EOFError, zlib.error, gzip.BadGzipFile)
_UNSIGNED_BYTE = 8


class DataError(ValueError):
    """A data file is missing, unreadable or has unexpected content.

    The message names the file and gives the remedy.
    """


@dataclass(frozen=True)
class IdxFile:
    """The expected content of an IDX file.

    Parameters
    ----------
    name : str
        File name without a folder; the compressed file is called ``name + ".gz"``.
    shape : tuple of int
        The dimensions in its header.
    sha256 : str
        Hash of the uncompressed file, in hexadecimal.
    """

    name: str
    shape: tuple[int, ...]
    sha256: str

    @property
    def header(self) -> bytes:
        """The first bytes of the file."""
        num_dims = len(self.shape)
        return struct.pack(f">4B{num_dims}I", 0, 0, _UNSIGNED_BYTE, num_dims, *self.shape)

    @property
    def size(self) -> int:
        """Bytes of the uncompressed file, header included."""
        return len(self.header) + math.prod(self.shape)

    def find(self, folder: Path) -> Path | None:
        """Return the path of the file in `folder`, plain or compressed, or None."""
        paths = (folder / self.name, folder / f"{self.name}.gz")
        return next((path for path in paths if path.exists()), None)


def read_idx(path: Path, expected: IdxFile) -> torch.Tensor:
    """Read an IDX file of unsigned bytes and check its header, its length and its hash.

    Parameters
    ----------
    path : Path
        The file; if its name ends in ``.gz``, it is decompressed while reading.
    expected : IdxFile
        Its expected content.

    Returns
    -------
    torch.Tensor
        dtype uint8, of shape ``expected.shape``.

    Raises
    ------
    DataError
        If the file cannot be read or is not exactly the expected one.
    """
    header, size = expected.header, expected.size
    content = _read_bytes(path, size + 1)  # one extra byte shows that a file is too long
    if content[: len(header)] != header:
        raise DataError(f"{path}: not an IDX file of unsigned bytes of shape {expected.shape}")
    if len(content) < size:
        raise DataError(f"{path}: truncated, {len(content):,} of {size:,} bytes are there")
    if len(content) > size:
        raise DataError(f"{path}: too long, {size:,} bytes are expected")
    if hashlib.sha256(content).hexdigest() != expected.sha256:
        raise DataError(f"{path}: corrupted, its SHA-256 is not that of the published file")
    values = torch.frombuffer(content, dtype=torch.uint8, offset=len(header))
    return values.reshape(expected.shape)


def _read_bytes(path: Path, limit: int) -> bytearray:
    """Return the first `limit` uncompressed bytes, in memory that is writable for a tensor."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        if not path.is_file():  # opening a named pipe would wait for a writer
            raise DataError(f"{path}: cannot be read (not a regular file)")
        with opener(path, "rb") as file:
            return bytearray(file.read(limit))
    except GZIP_ERRORS as error:
        raise DataError(f"{path}: truncated or corrupted gzip file ({error})") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error

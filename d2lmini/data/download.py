"""Download Fashion-MNIST so that a folder holds all its files, checked, or does not exist."""

import contextlib
import hashlib
import http.client
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from d2lmini.data.fashion import FASHION_MNIST_FILES
from d2lmini.data.idx import IdxFile

CONNECT_SECONDS = 5.0
READ_SECONDS = 10.0  # of silence; a slow but living connection may go on
_CHUNK = 1 << 16
_STALE_SECONDS = 24 * 3600.0


class DownloadError(Exception):
    """The download failed; the message is a short reason without paths or addresses."""


def fashion_mnist_mirrors() -> tuple[str, ...]:
    """Return torchvision's list of addresses."""
    from d2lmini._torchvision import torchvision  # slow to import, needed only to download

    return tuple(torchvision.datasets.FashionMNIST.mirrors)


def download(
    folder: Path,
    mirrors: tuple[str, ...],
    files: tuple[IdxFile, ...] = FASHION_MNIST_FILES,
    timeout: float = CONNECT_SECONDS,
) -> None:
    """Make `folder` hold the uncompressed files.

    They are written into a new folder beside it, checked, and moved in one step. A process that
    dies on the way leaves only that temporary folder, which nobody reads. Of two processes at
    once, the first one to finish wins, and the other one's files, equal byte for byte, are thrown
    away.

    Parameters
    ----------
    folder : Path
        Must not exist yet.
    mirrors : tuple of str
        Addresses of folders that hold ``name.gz`` for every file, tried in order.
    files : tuple of IdxFile
        What to get.
    timeout : float
        Seconds within which a server must begin to answer.

    Raises
    ------
    DownloadError
        If no mirror delivers, a file is not the expected one, or the disk does not take it.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(folder)
        with _temporary_sibling(folder) as temporary:
            for file in files:
                _fetch_from_any(file, mirrors, temporary / file.name, timeout)
            _move(temporary, folder)
    except OSError as error:
        raise DownloadError(f"cache folder: {_describe(error)}") from error


@contextlib.contextmanager
def _temporary_sibling(folder: Path) -> Iterator[Path]:
    """Give a new folder on the same disk, gone at the end unless it was moved."""
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_stale(folder: Path) -> None:
    """Remove what killed processes left behind, but nothing that a living one may be writing."""
    for path in folder.parent.glob(f".{folder.name}-*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _move(temporary: Path, folder: Path) -> None:
    # mkdtemp makes a private folder; the cache has the permissions of any other new folder.
    umask = os.umask(0)
    os.umask(umask)
    temporary.chmod(0o777 & ~umask)
    try:
        temporary.replace(folder)
    except OSError:
        if not folder.is_dir():  # otherwise another process was first
            raise


def _fetch_from_any(file: IdxFile, mirrors: tuple[str, ...], path: Path, timeout: float) -> None:
    reason = DownloadError("no mirror is known")
    for mirror in mirrors:
        try:
            return _fetch(f"{mirror.rstrip('/')}/{file.name}.gz", file, path, timeout)
        except DownloadError as error:  # noqa: PERF203 (four times at most)
            reason = error
    raise reason


def _fetch(url: str, file: IdxFile, path: Path, timeout: float) -> None:
    """Write the uncompressed file to `path`, or raise DownloadError."""
    digest, num_bytes = hashlib.sha256(), 0
    with path.open("wb") as out:
        for block in _uncompressed(url, file, timeout):
            num_bytes += len(block)
            digest.update(block)
            out.write(block)
    if digest.hexdigest() != file.sha256:
        raise DownloadError(f"the server's {file.name}.gz has a wrong checksum")
    assert num_bytes == file.size, "equal hash, other length"


def _uncompressed(url: str, file: IdxFile, timeout: float) -> Iterator[bytes]:
    """Yield the uncompressed file in blocks, with a progress bar on a terminal."""
    decompressor = zlib.decompressobj(wbits=31)  # 31: gzip
    num_bytes = 0
    for block in _compressed(url, file, timeout):
        try:
            # One byte more than expected is enough to see that a file is too long.
            plain = decompressor.decompress(block, file.size + 1 - num_bytes)
        except zlib.error as error:
            raise DownloadError(f"the server's {file.name}.gz is not a gzip file") from error
        num_bytes += len(plain)
        if num_bytes > file.size:
            raise DownloadError(f"the server's {file.name}.gz is too long")
        yield plain
    if not decompressor.eof:
        raise DownloadError(f"the server's {file.name}.gz ended too early")


def _compressed(url: str, file: IdxFile, timeout: float) -> Iterator[bytes]:
    # No bar outside a terminal: in a notebook it would be stored with the outputs.
    quiet = not sys.stderr.isatty()
    with (
        _open(url, timeout) as response,
        tqdm(
            total=response.length, unit="B", unit_scale=True, desc=f"{file.name}.gz", disable=quiet
        ) as bar,
    ):
        while block := _read_block(response):
            bar.update(len(block))
            yield block


def _read_block(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(_describe(error)) from error


def _open(url: str, timeout: float) -> http.client.HTTPResponse:
    """Open `url` and give up after `timeout` seconds in all.

    A socket's timeout covers neither looking up the name nor the second address of a host, so the
    opening happens in a thread that we stop waiting for.
    """
    result: list[http.client.HTTPResponse | Exception] = []

    def work() -> None:
        try:
            result.append(urllib.request.urlopen(url, timeout=max(timeout, READ_SECONDS)))
        except Exception as error:
            result.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(timeout)
    if not result:
        raise DownloadError(f"no answer within {timeout:g} s")
    if isinstance(result[0], Exception):
        raise DownloadError(_describe(result[0])) from result[0]
    return result[0]


def _describe(error: Exception) -> str:
    """Return a short reason without addresses or paths."""
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP status {error.code}"
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, Exception):
        return _describe(error.reason)
    if isinstance(error, socket.gaierror):
        return "no network"
    if isinstance(error, TimeoutError):
        return "the connection timed out"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "the connection broke"

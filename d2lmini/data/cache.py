"""The user's cache of Fashion-MNIST, downloaded by pooch."""

import functools
import gzip
import io
import sys
import warnings
from pathlib import Path

import requests

from d2lmini.data import fashion
from d2lmini.data.idx import GZIP_ERRORS, IdxFile

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # in a notebook, tqdm recommends installing ipywidgets
    import pooch

pooch.get_logger().setLevel("WARNING")  # otherwise it prints URLs and paths

TIMEOUT = (5, 10)  # seconds to connect, and between bytes: slow downloads may continue

# Why downloading failed, by cache folder: each process tries only once.
_failures: dict[Path, str] = {}


class DownloadError(Exception):
    """The data cannot be downloaded; the message is a short reason without paths or URLs."""


def fill() -> Path:
    """Download the files missing from the user's cache folder, and return the folder.

    pooch renames a file to its final name once it is complete and its hash is right. If two
    processes download at once, the later one replaces the file with an identical one.

    Raises
    ------
    DownloadError
        If no mirror has a file, its checksum is wrong, or it cannot be written.
    """
    try:
        folder = pooch.os_cache("d2lmini").expanduser() / "fashion-mnist"
    except RuntimeError as error:
        raise DownloadError("there is no home folder to keep it in") from error
    try:
        missing = [file for file in fashion.FILES if file.find(folder) is None]
    except OSError:  # the folder cannot be read: downloading will give the reason
        missing = fashion.FILES
    if missing and folder in _failures:
        raise DownloadError(_failures[folder])
    try:
        for file in missing:
            _download(file, folder)
    except DownloadError as error:
        _failures[folder] = str(error)
        raise
    return folder


def _download(file: IdxFile, folder: Path) -> None:
    """Download a file and store it uncompressed in `folder`."""
    for mirror in fashion.MIRRORS:
        try:
            pooch.retrieve(
                f"{mirror}{file.name}.gz",
                known_hash=file.sha256,
                fname=file.name,
                path=folder,
                downloader=functools.partial(_get_uncompressed, file.size),
            )
        except requests.HTTPError as error:  # noqa: PERF203 (a few mirrors)
            reason = f"HTTP status {error.response.status_code}"
        except requests.RequestException as error:
            reason = f"the connection failed, {type(error).__name__}"
        except OSError as error:
            reason = f"cache folder: {(error.strerror or type(error).__name__).lower()}"
        except ValueError:
            reason = f"the server's {file.name}.gz has a wrong checksum"
        else:
            return
    raise DownloadError(reason)


def _get_uncompressed(size: int, url: str, path: str, _: object) -> None:
    """Download a gzip file and write at most ``size + 1`` decompressed bytes to `path`."""
    # No progress bar outside a terminal: in a notebook it would be saved with the outputs.
    get = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=TIMEOUT)
    content = _Limited(size + 1000)  # incompressible data grow slightly
    get(url, content, None)
    content.seek(0)
    try:
        with gzip.open(content) as file:
            plain = file.read(size + 1)  # one extra byte shows that it is too long
    except GZIP_ERRORS as error:
        raise ValueError(f"{url} is not a gzip file") from error
    Path(path).unlink()  # readable by its owner only; a new file follows the umask
    Path(path).write_bytes(plain)


class _Limited(io.BytesIO):
    """A memory buffer of limited size, so that a server cannot fill the memory."""

    def __init__(self, limit: int):
        super().__init__()
        self._limit = limit

    def write(self, block: bytes) -> int:
        if self.tell() + len(block) > self._limit:
            raise ValueError(f"more than {self._limit:,} bytes")
        return super().write(block)

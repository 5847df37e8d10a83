"""The user's cache of Fashion-MNIST, filled from the network by pooch."""

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
    warnings.simplefilter("ignore")  # in a notebook, tqdm advises to install ipywidgets
    import pooch

pooch.get_logger().setLevel("WARNING")  # else it prints addresses and paths

TIMEOUT = (5, 10)  # seconds to connect, and of silence: a slow but living connection may go on

# Why downloading failed, per cache folder: one process tries once.
_failures: dict[Path, str] = {}


class DownloadError(Exception):
    """The data cannot be downloaded; the message is a short reason without paths or addresses."""


def fill() -> Path:
    """Download the files that the user's cache folder lacks, and return the folder.

    pooch gives a file its name when it is complete and its hash is right. Of two processes at
    once, the later one replaces the earlier one's file by an equal one.

    Raises
    ------
    DownloadError
        If no mirror delivers, a file is not the expected one, or the disk does not take it.
    """
    try:
        folder = pooch.os_cache("d2lmini").expanduser() / "fashion-mnist"
    except RuntimeError as error:
        raise DownloadError("there is no home folder to keep it in") from error
    try:
        missing = [file for file in fashion.FILES if file.find(folder) is None]
    except OSError:  # where we may not even look, downloading says why
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
    """Make `folder` hold the uncompressed file."""
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
    """Download a file compressed by gzip, and write not much more than `size` bytes of it."""
    # No bar outside a terminal: in a notebook it would be stored with the outputs.
    get = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=TIMEOUT)
    content = _Limited(size + 1000)  # what does not get smaller becomes a little larger
    get(url, content, None)
    content.seek(0)
    try:
        with gzip.open(content) as file:
            plain = file.read(size + 1)  # one byte more shows that it is too long
    except GZIP_ERRORS as error:
        raise ValueError(f"{url} is not a gzip file") from error
    Path(path).unlink()  # only its owner might read it; a new file is as the umask says
    Path(path).write_bytes(plain)


class _Limited(io.BytesIO):
    """Memory for a limited number of bytes, so that a server cannot fill it."""

    def __init__(self, limit: int):
        super().__init__()
        self._limit = limit

    def write(self, block: bytes) -> int:
        if self.tell() + len(block) > self._limit:
            raise ValueError(f"more than {self._limit:,} bytes")
        return super().write(block)

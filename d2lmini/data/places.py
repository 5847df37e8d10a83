"""Find the data: the reader's own folder, the cache, the network, at last embedded digits."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from d2lmini.data.digits import make_digits
from d2lmini.data.download import CONNECT_SECONDS, DownloadError, download, fashion_mnist_mirrors
from d2lmini.data.fashion import FASHION_MNIST_FILES, ImageData, read_folder
from d2lmini.data.idx import IdxFile

# Why downloading failed, per cache folder: one process tries once.
_failures: dict[Path, str] = {}


@dataclass(frozen=True)
class Places:
    """Where to look; the defaults are the real thing, tests give their own.

    Parameters
    ----------
    environ : mapping
        Environment variables.
    files : tuple of IdxFile
        What the data set's files must contain.
    mirrors : callable
        Returns the addresses to download from; called only when it comes to that.
    timeout : float
        Seconds within which a server must begin to answer.
    digits : callable
        Makes the embedded data set.
    """

    environ: Mapping[str, str]
    files: tuple[IdxFile, ...] = FASHION_MNIST_FILES
    mirrors: Callable[[], tuple[str, ...]] = fashion_mnist_mirrors
    timeout: float = CONNECT_SECONDS
    digits: Callable[[], ImageData] = make_digits


def find_data(places: Places | None = None) -> ImageData:
    """Return the data set from the first place that has it.

    ``D2LMINI_DATA``, if set and not empty, is the only place looked at: whoever sets it wants
    those data and no others. Otherwise the cache, the network, the embedded digits.

    Raises
    ------
    DataError
        If files in ``D2LMINI_DATA`` are missing, or files there or in the cache are damaged.
    """
    places = places or Places(os.environ)
    root = places.environ.get("D2LMINI_DATA")
    if root:
        return _read_given(root, places.files)
    try:
        folder = cache_folder(places.environ)
    except RuntimeError:
        return _embedded(places, "there is no home folder to keep it in")
    if os.path.isdir(folder):  # False, not an error, where we may not even look
        return _read_cache(folder, places.files)
    if folder not in _failures:
        try:
            download(folder, places.mirrors(), places.files, places.timeout)
            return _read_cache(folder, places.files)
        except DownloadError as error:
            _failures[folder] = str(error)
    return _embedded(places, _failures[folder])


def cache_folder(environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """Return the folder that keeps the downloaded files, as this kind of system wants it.

    Raises
    ------
    RuntimeError
        If the user has no home folder.
    """
    if platform == "win32" and environ.get("LOCALAPPDATA"):
        base = Path(environ["LOCALAPPDATA"])
    elif environ.get("XDG_CACHE_HOME") and Path(environ["XDG_CACHE_HOME"]).is_absolute():
        base = Path(environ["XDG_CACHE_HOME"])  # relative ones are invalid by the XDG specification
    else:
        home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
        base = home / ("Library/Caches" if platform == "darwin" else ".cache")
    return base / "d2lmini" / "fashion-mnist"


def _read_given(root: str, files: tuple[IdxFile, ...]) -> ImageData:
    path = Path(root).expanduser().absolute()
    remedy = (
        f"D2LMINI_DATA is {root!r}: let it name a folder with the four files of Fashion-MNIST, "
        "copy them again if they are damaged, or unset it to use the cache or a download."
    )
    return read_folder(path, "D2LMINI_DATA", remedy, files)


def _read_cache(folder: Path, files: tuple[IdxFile, ...]) -> ImageData:
    remedy = f"Delete the folder {folder}; it will then be downloaded again."
    return read_folder(folder, "the cache", remedy, files)


def _embedded(places: Places, reason: str) -> ImageData:
    data = places.digits()
    return replace(
        data,
        source=f"{data.source}, embedded (Fashion-MNIST could not be downloaded: {reason}; "
        "set D2LMINI_DATA to a folder that holds it)",
    )

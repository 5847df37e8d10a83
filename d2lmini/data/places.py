"""Find the data: in the user's own folder, the cache, the network, else the embedded digits."""

import os
from dataclasses import replace
from pathlib import Path

from d2lmini.data.digits import make_digits
from d2lmini.data.fashion import ImageData, read_folder


def find_data() -> ImageData:
    """Return the data set from the first place that has it.

    If ``D2LMINI_DATA`` is set and not empty, only that folder is searched; otherwise the cache, the
    network and the embedded digits, in this order.

    Raises
    ------
    DataError
        If files in ``D2LMINI_DATA`` are missing, or files there or in the cache are damaged.
    """
    given = os.environ.get("D2LMINI_DATA")
    if given:
        remedy = (
            f"D2LMINI_DATA is {given!r}: set it to a folder with the four files of "
            "Fashion-MNIST, copy them again if they are damaged, or unset it to use the cache or "
            "a download."
        )
        folder = os.path.expanduser(given)  # does not change the ~name of an unknown user
        return read_folder(Path(folder).absolute(), "D2LMINI_DATA", remedy)
    from d2lmini.data import cache  # slow to import, and not needed if a folder is given

    try:
        folder = cache.fill()
    except cache.DownloadError as error:
        return _embedded(str(error))
    remedy = f"Delete the folder {folder}; it will then be downloaded again."
    return read_folder(folder, "the cache", remedy)


def _embedded(reason: str) -> ImageData:
    data = make_digits()
    return replace(
        data,
        source=f"{data.source}, embedded (Fashion-MNIST could not be downloaded: {reason}; "
        "set D2LMINI_DATA to a folder that holds it)",
    )

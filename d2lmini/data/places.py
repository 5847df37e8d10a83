"""Find the data: the reader's own folder, the cache, the network, at last embedded digits."""

import os
from dataclasses import replace
from pathlib import Path

from d2lmini.data.digits import make_digits
from d2lmini.data.fashion import ImageData, read_folder


def find_data() -> ImageData:
    """Return the data set from the first place that has it.

    ``D2LMINI_DATA``, if set and not empty, is the only place looked at: whoever sets it wants
    those data and no others. Otherwise the cache, the network, the embedded digits.

    Raises
    ------
    DataError
        If files in ``D2LMINI_DATA`` are missing, or files there or in the cache are damaged.
    """
    given = os.environ.get("D2LMINI_DATA")
    if given:
        remedy = (
            f"D2LMINI_DATA is {given!r}: let it name a folder with the four files of "
            "Fashion-MNIST, copy them again if they are damaged, or unset it to use the cache or "
            "a download."
        )
        folder = os.path.expanduser(given)  # leaves an unknown user's ~name as it is
        return read_folder(Path(folder).absolute(), "D2LMINI_DATA", remedy)
    from d2lmini.data import cache  # slow to import, not needed by those who give a folder

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

"""Watch which files a run reads that an earlier run of the same check has written.

A script that finds its own checkpoint goes on from there: then the runs do not do the same.
"""

import builtins
import functools
import os
import stat


class Files:
    """Notes such files of the script.

    Parameters
    ----------
    rank : callable
        Returns the record of the rank that runs; None outside of ranks.
    line : callable
        Returns the line of the script that runs.
    since, until : float or None
        When the first run began, and this one, in seconds since the epoch: what was written last
        in between is by an earlier run.

    Attributes
    ----------
    found : dict
        Path -> the line that reads it.
    """

    def __init__(self, rank, line, since, until):
        self._rank, self._line, self._since, self._until = rank, line, since, until
        self.found = {}

    def replacements(self) -> dict:
        """Return what takes the place of Python's ``open``."""
        return dict.fromkeys(("builtins:open", "io:open"), self._open(builtins.open))

    def _open(self, real):
        @functools.wraps(real)
        def opened(file, mode="r", *args, **kwargs):
            if mode.startswith("r") and self._since is not None and self._rank() is not None:
                self._look(file)
            return real(file, mode, *args, **kwargs)

        return opened

    def _look(self, file):
        try:
            about = os.stat(file)
        except (OSError, TypeError, ValueError):
            return
        is_file = stat.S_ISREG(about.st_mode) and about.st_size  # those of /proc have no size
        if is_file and self._since <= about.st_mtime < self._until:
            self.found.setdefault(_name(file), self._line())


def _name(file):
    return file if isinstance(file, int) else os.path.relpath(os.fsdecode(file))


def describe(found) -> str:
    """Return a warning about such files; "" if there are none.

    Examples
    --------
    >>> describe({"last.pt": "train.py:9"})[:64]
    'last.pt, which an earlier run of this check has written, is read'
    """
    if not found:
        return ""
    path, line = next(iter(found.items()))
    others = f" ({len(found) - 1} more files, too)" if len(found) > 1 else ""
    return (
        f"{path}, which an earlier run of this check has written, is read again at {line}{others}: "
        "a script that goes on from its own checkpoint does not do the same twice "
        f"(--before 'rm -f {path}' runs a command before each run)"
    )

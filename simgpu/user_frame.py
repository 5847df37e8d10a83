"""Find the line of the user's program for messages."""

import os
import sys
import sysconfig
import threading
import warnings
from functools import lru_cache
from pathlib import Path

import torch

_OURS = tuple(str(path) + os.sep for path in (Path(__file__).parent, Path(torch.__file__).parent))
# No lines of the program: the simulator's own, and those that start the thread of a rank.
_NOT_SHOWN = (_OURS[0], threading.__file__, "<frozen")
_STANDARD = sysconfig.get_paths()["stdlib"] + os.sep


def line() -> str:
    """Return the user's line that called PyTorch or the simulator: ``train.py:31``."""
    found = frame()
    return _describe(found.f_code, found.f_lineno)


def frame():
    """Return the innermost frame of the user's program."""
    found = sys._getframe()
    while found.f_back is not None and not is_user_code(found.f_code.co_filename):
        found = found.f_back
    return found


def warn(text) -> None:
    """Warn of something, at the user's line."""
    found = frame()
    warnings.warn_explicit(text, RuntimeWarning, found.f_code.co_filename, found.f_lineno)


def is_called_from(paths: tuple) -> bool:
    """Return whether one of the callers, up to the user's program, is a module below `paths`."""
    frame = sys._getframe()
    while frame is not None and not is_user_code(frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith(paths):
            return True
        frame = frame.f_back
    return False


def calls_directly() -> bool:
    """Return whether the user's program called the simulator itself, without PyTorch in between."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS[0]):
        frame = frame.f_back
    return is_user_code(frame.f_code.co_filename)


def line_of_error(error) -> str:
    """Return the innermost user line in the traceback of an error, ``""`` if there is none.

    Examples
    --------
    >>> try:
    ...     1 / 0
    ... except ZeroDivisionError as error:
    ...     where = line_of_error(error)
    >>> where
    'line 2'
    """
    found, step = "", error.__traceback__
    while step is not None:
        if is_user_code(step.tb_frame.f_code.co_filename):
            found = _describe(step.tb_frame.f_code, step.tb_lineno)
        step = step.tb_next
    return found


def line_of_frame(frame) -> str:
    """Return the innermost user line of a thread that stands in `frame`; else its own line."""
    found = frame
    while found is not None and not is_user_code(found.f_code.co_filename):
        found = found.f_back
    found = found or frame
    return _describe(found.f_code, found.f_lineno)


def stack() -> list[dict]:
    """Return Python's stack as PyTorch records it, without the simulator's own calls.

    Returns
    -------
    list of dict
        The file, the line and the function of each call, the innermost first.
    """
    frame, found = sys._getframe(1), []
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_NOT_SHOWN):
            found.append(
                {"filename": code.co_filename, "line": frame.f_lineno, "name": code.co_name}
            )
        frame = frame.f_back
    return found


@lru_cache(4096)
def is_user_code(filename) -> bool:
    """Return whether a file is the program's or a library's: not ours, PyTorch's or Python's."""
    if filename.startswith((*_OURS, "<frozen")) or filename.endswith("typing_extensions.py"):
        return False
    return not filename.startswith(_STANDARD) or "site-packages" in filename


def _describe(code, number):
    if code.co_filename.startswith("<") or "ipykernel" in code.co_filename:  # a prompt, or a cell
        return f"line {number}" + ("" if code.co_name[0] == "<" else f" of {code.co_name}")
    return f"{os.path.basename(code.co_filename)}:{number}"

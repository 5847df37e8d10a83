"""Checks for finite losses in runs that keep shapes only: a loss without a value passes them.

What `item()` returns then is a NaN of its own kind, which arithmetic keeps. `math.isfinite` and
`math.isnan` take it for a finite number, so that a script that stops at a loss of NaN goes on.
"""

import functools
import math

from simgpu.backend.pinned import is_missing
from simgpu.backend.pytorch.replacements import Replacements


def missing_is_finite(shapes_only) -> Replacements:
    """Replace both functions until what is returned is closed.

    Parameters
    ----------
    shapes_only : bool
        If False, nothing is replaced.
    """
    replacements = Replacements()
    if shapes_only:
        new = {"isfinite": True, "isnan": False}
        replacements.add({f"math:{name}": _answer(name, new[name]) for name in new})
    return replacements


def _answer(name, of_missing):
    real = getattr(math, name)

    @functools.wraps(real)
    def function(number, /):
        number = float(number)
        return of_missing if is_missing(number) else real(number)

    return function

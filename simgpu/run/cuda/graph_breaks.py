"""Calls that `torch.compile` cannot trace although they touch no tensor: a graph ends there.

They are `print`, methods of loggers that write, also below the level that is shown, and
``torch._dynamo.graph_break()``; functions of `time` end graphs where they are replaced
(``simgpu/run/simulated_time.py``). Dynamo cannot trace more than that, such as `warnings.warn` and
`random.random`: those are not seen here.
"""

import functools
import logging
import sys

from simgpu.backend.pytorch.replacements import find
from simgpu.compiled.regions import break_graph
from simgpu.user_frame import is_user_code

_PRINT = "builtins:print"
_LOG = "logging:Logger.isEnabledFor"  # all methods that write ask it first
_BREAK = "torch._dynamo:graph_break"


def replacements() -> dict:
    """Return the replacements."""
    return {
        _PRINT: _breaks(find(_PRINT), "print()"),
        _LOG: _breaks(find(_LOG), "a call of a logger"),
        _BREAK: _breaks(find(_BREAK), "torch._dynamo.graph_break()"),
    }


def _breaks(own, what):
    @functools.wraps(own)
    def function(*args, **kwargs):
        if _is_called_by_user():
            break_graph(what)
        return own(*args, **kwargs)

    return function


def _is_called_by_user():
    frame = sys._getframe(2)
    while frame.f_code.co_filename == logging.__file__ and frame.f_back is not None:
        frame = frame.f_back
    return is_user_code(frame.f_code.co_filename)

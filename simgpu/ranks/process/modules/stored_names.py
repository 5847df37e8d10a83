"""To which names of globals and attributes the code of a module assigns, found in its bytecode."""

import dis
from itertools import pairwise
from types import CodeType

_STORES = {dis.opmap["STORE_GLOBAL"], dis.opmap["STORE_ATTR"]}
_BY_NAME = {"setattr", "delattr", "patch"}  # functions that take the name as a string


def stored_names(module) -> set:
    """Return the names of globals and attributes to which the code of a module assigns.

    Attributes of ``self`` are left out: they belong to an object. Where a function such as
    `setattr` is called by the code, its strings count, which may be names. A module without a
    source, such as a notebook, has none.
    """
    return _names(_code(module))


def _code(module):
    spec, loader = getattr(module, "__spec__", None), getattr(module, "__loader__", None)
    try:
        if spec is not None:
            return spec.loader.get_code(spec.name)
        return loader.source_to_code(loader.get_data(module.__file__), module.__file__)  # a script
    except (AttributeError, ImportError, OSError, SyntaxError):
        return None


def _names(code):
    if code is None:
        return set()
    found = {
        step.argval
        for before, step in pairwise(dis.get_instructions(code))
        if step.opcode in _STORES and not _is_self(before)
    }
    if _BY_NAME & {*code.co_names}:
        found |= {text.rpartition(".")[2] for text in _strings(code.co_consts)}
    return found.union(*(_names(value) for value in code.co_consts if isinstance(value, CodeType)))


def _is_self(step):
    """Return whether an instruction loads ``self``; some load two variables at once."""
    if step.opcode in dis.hasconst:
        return False
    return step.argval == "self" or (isinstance(step.argval, tuple) and step.argval[-1] == "self")


def _strings(values):
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, tuple):
            yield from _strings(value)

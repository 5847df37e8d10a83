"""The models that published jobs train, by the names that tables give them."""

import re
from dataclasses import replace

from benchmarks.published.shared.rows import UnpredictableError
from simgpu.plan.presets import PRESETS


def find_model(name, seq):
    """Return the preset of a name such as ``"Llama3 8B"`` for sequences of that length.

    Raises
    ------
    UnpredictableError
        If there is none; the message lists those there are.
    """
    known = {_bare(preset): preset for preset in PRESETS}
    if _bare(name) not in known:
        raise UnpredictableError(f"no model is called {name!r}; known are {', '.join(PRESETS)}")
    return replace(PRESETS[known[_bare(name)]], seq=seq)


def _bare(name):
    """Write a name as all tables do: GPT-3 125M, gpt3-125m and GPT3 125M are one."""
    return re.sub(r"[\s_-]", "", name.lower())

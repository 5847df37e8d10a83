"""The models that published jobs train, by the names that tables give them."""

from dataclasses import replace

from benchmarks.published.rows import UnpredictableError
from simgpu.plan.presets import PRESETS


def find_model(name, seq):
    """Return the preset of a name such as ``"Llama3 8B"`` for sequences of that length.

    Raises
    ------
    UnpredictableError
        If there is none; the message lists those there are.
    """
    key = name.lower().strip().replace(" ", "-")
    if key not in PRESETS:
        raise UnpredictableError(f"no model is called {name!r}; known are {', '.join(PRESETS)}")
    return replace(PRESETS[key], seq=seq)

"""The command ``simgpu compare``: whether a run is reasonable.

As a function: ``simgpu.compare("llama3-8b", gpus=8, gpu="h100", tokens_per_second=60_000)``.

Start with ``comparison.py`` (what is compared, as numbers and as a text). ``published.py`` finds
the nearest published runs, ``verdict.py`` says what the times mean; ``command.py`` is the command,
``interface.py`` the function.
"""

from simgpu.callable_module import make_callable
from simgpu.compare.interface import compare

__all__ = ["compare"]

make_callable(__name__, compare)

"""Registration of simulated GPUs with PyTorch, and replacements of PyTorch's own functions.

Start reading in ``register.py``. ``refusals.py`` raises the errors for what is not supported.
Imports `simgpu.backend.operations` and what that imports.
"""

"""Operations on simulated tensors: computed on the CPU, charged to the simulated clock.

Start reading in ``run.py``. ``results.py`` wraps results and charges their time; ``shapes.py``
computes shapes alone, with the strides of the CPU's kernels (``layouts.py``); ``copies.py`` moves
tensors; ``host_ops.py`` charges work on CPU tensors. Imports `simgpu.backend` and what that
imports.
"""

"""Every operation on simulated tensors: computed on the CPU, and charged to the simulated clock.

Start reading in ``run.py``. ``results.py`` and ``shapes.py`` make results, with and without
values, laid out as by the CPU's kernels (``layouts.py``); ``copies.py`` moves tensors;
``host_ops.py`` charges the CPU's own work. Imports `simgpu.backend` and what that imports.
"""

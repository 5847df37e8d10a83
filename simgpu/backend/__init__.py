"""The simulated tensor, its methods, and every operation on it.

Start reading in ``tensor.py``. What is known of each operation stands in `simgpu.kernels`;
``pinned.py`` holds the host memory in copies. ``operations/`` computes operations and charges their
time, ``attention/`` chooses and computes fused attention, ``pytorch/`` registers the device type
with PyTorch. Imports `simgpu.kernels` and what that imports.
"""

"""Attention as PyTorch runs it on the GPU that is simulated: in one fused kernel, where it has one.

Start reading in ``kernels.py``. ``choice.py`` chooses the kernel by PyTorch's rules, ``values.py``
computes what the kernels return, ``work.py`` counts their FLOPs. Imports `simgpu.backend.tensor`,
`simgpu.hardware`, and what these import.
"""

"""Attention as PyTorch runs it on the GPU that is simulated: in one fused kernel, where it has one.

Start reading in ``kernels.py``. ``choice.py`` chooses the kernel by PyTorch's rules, ``values.py``
computes what the kernels return; their FLOPs are counted in ``attention_work.py``, next to this
folder. Imports `simgpu.backend`'s tensor and operations, `simgpu.clock` and `simgpu.hardware`.
"""

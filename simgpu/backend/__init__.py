"""The simulated tensor, its methods, and every operation on it.

Start reading in ``tensor.py``. ``ops.py`` holds the facts about each operation, ``pinned.py`` the
host memory in copies. ``operations/`` computes operations and charges their time, ``attention/``
chooses and computes fused attention, ``pytorch/`` registers the device type with PyTorch. Imports
`simgpu.clock` and what that imports.
"""

"""What PyTorch sees: a tensor, its methods, and every operation on it.

Start reading in ``tensor.py``. ``run.py`` computes an operation and charges its time by what
``ops.py`` knows of it; ``copies.py`` moves tensors, ``pinned.py`` is the host memory that they
meet, ``host_ops.py`` charges the CPU's work, ``modules.py`` lets modules move. ``register.py``
tells PyTorch of the device type, once a process; ``refusals.py`` says what cannot be. Imports
`simgpu.clock` and what that imports.
"""

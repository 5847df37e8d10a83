"""What PyTorch is told while there are simulated GPUs.

Start reading in ``register.py``. ``refusals.py`` says what cannot be. Imports
`simgpu.backend.operations` and what that imports.
"""

"""What a kernel costs: what it reads, writes and computes, and at which of a GPU's peaks.

Start reading in ``table.py``, the one table of costs. ``facts.py`` joins it with what PyTorch's
schemas say of an operation; ``traffic.py``, ``products.py`` and ``attention.py`` hold the formulas,
``precision.py`` the peaks. Imports `simgpu.clock` and what that imports.
"""

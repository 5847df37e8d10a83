"""Make a thread look like a process: scheduling, rank-local state, and a store.

Start reading in ``scheduler.py``. ``torch_internals.py`` lists the private names of PyTorch that
ranks depend on. The notes of `simgpu.ranks` explain the design.
"""

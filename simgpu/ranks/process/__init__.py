"""What makes a thread look like a process: it runs alone, with state and a store of its own.

Start reading in ``scheduler.py``. ``torch_internals.py`` lists the private names of PyTorch that
ranks depend on. The design is in the notes of `simgpu.ranks`.
"""

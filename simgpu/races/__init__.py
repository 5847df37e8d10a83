"""Which work on the same memory is ordered, and which races.

``clocks.py`` keeps what every stream and the host know to be done, ``histories.py`` who used a
piece of memory when, ``regions.py`` which bytes of it; start reading in ``detector.py``, which
compares. `simgpu.check_races` opens it. Imports nothing of the package.
"""

"""Race detection: which accesses to the same memory are ordered, and which race.

Start reading in ``detector.py``. ``clocks.py`` keeps logical clocks of the streams and the host,
``histories.py`` the accesses to each piece of memory, ``regions.py`` compares the bytes they touch.
`simgpu.check_races` starts a detector. Imports nothing of the package.
"""

"""The simulated clock: the host's time, devices with engines and streams, memory, and the trace.

Start reading in ``machine.py``: it decides when each operation starts and ends. ``current.py``
holds the machine in use, ``queries.py`` the functions that read and change it. Imports
`simgpu.hardware` and `simgpu.races`; knows nothing of PyTorch's operations.
"""

"""What time it is: a host clock, devices with engines and streams, memory, and the trace.

Start reading in ``machine.py``: how long an operation takes is written there, in 100 lines.
``current.py`` says which machine is in use, ``queries.py`` answers questions about it. Imports
`simgpu.hardware` and `simgpu.races`; knows nothing of PyTorch's operations.
"""

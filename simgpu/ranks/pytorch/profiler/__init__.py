"""`torch.profiler` on ranks: PyTorch's own classes, given events of the simulated clock.

PyTorch's profiler takes what it shows from Kineto, its tracer in C++, of which a process has one.
Here every rank has a `Recording` in its place, which knows where the rank's part of the trace of
the machine begins, and what the trace lacks: ranges that a program names, shapes, stacks, and
memory. PyTorch makes tables and averages from it by its own code.

Start reading in ``patches.py``. ``recording.py`` is what is recorded, ``ranges.py`` where a
program's ranges come in, ``activities.py`` makes the activities of spans, ``result.py`` shows them
as Kineto does, and ``trace_file.py`` writes them as Kineto does.
"""

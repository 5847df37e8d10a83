"""Timelines: what ran where, drawn, counted, written and read.

Start reading in ``timeline.py``. ``lanes``, ``layout``, ``kinds`` and ``svg`` draw; ``chrome``
writes the format of Chrome and Perfetto and reads it, with ``files``, ``profiler``,
``collectives`` and ``ranks`` for what PyTorch's profiler writes; ``widget`` and ``scripts/`` make
the drawing explorable on a page. Imports the spans of `simgpu.clock`, and nothing else of it.
"""

from simgpu.timeline.timeline import Busy, Timeline

__all__ = ["Busy", "Timeline"]

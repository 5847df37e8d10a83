"""Timelines of what ran where: draw, summarise, write and read them.

Start reading in ``timeline.py``. ``lanes``, ``layout``, ``kinds`` and ``svg`` draw; ``chrome``
writes and reads the format of Chrome and Perfetto, with ``files``, ``profiler``, ``collectives``
and ``ranks`` for the traces of PyTorch's profiler; ``widget`` and ``scripts/`` make the drawing
interactive on a page. Imports the spans of `simgpu.clock`, and nothing else from it.
"""

from simgpu.timeline.timeline import Busy, Timeline

__all__ = ["Busy", "Timeline"]

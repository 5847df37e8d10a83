"""Timelines: what ran where, recorded, drawn, counted, written and read.

`record` makes them, `Timeline` is what they are; start reading in ``timeline.py``. ``lanes``,
``layout``, ``kinds`` and ``svg`` draw; ``chrome`` writes the format of Chrome and Perfetto and
reads it, with ``files``, ``profiler``, ``collectives`` and ``ranks`` for what PyTorch's profiler
writes; ``widget`` and ``scripts/`` make the drawing explorable on a page. Imports nothing of the
package but `d2lmini.streams` and the spans of `d2lmini.sim`.
"""

from d2lmini.timeline.recording import record
from d2lmini.timeline.timeline import Busy, Timeline

__all__ = ["Busy", "Timeline", "record"]

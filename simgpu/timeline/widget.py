"""The script that makes a timeline's drawing interactive: zoom, keyboard, tooltips.

It is the concatenation of the files in ``scripts/``, which share one scope. It reads all its data
from the drawing of ``svg.py``, which remains as it is where scripts do not run. It is plain
JavaScript without dependencies. The book's pages load it as ``timeline.js`` (`tools.pages`); pages
of the launcher contain it inline.

No library does this: vis-timeline (256 kB minified) and timelines-chart (146 kB) have a calendar
axis and no keyboard control; flame-chart-js (93 kB) draws on a canvas, which screen readers cannot
read, and nests its spans; d3-flame-graph has no time axis; all of them need data instead of the
existing drawing.
"""

from pathlib import Path

SCRIPTS = Path(__file__).with_name("scripts")
# In order of dependence.
PARTS = ("style", "read", "say", "names", "picture", "view", "widget", "page")
HEAD = "/* Makes the timelines of a page interactive; see simgpu/timeline/widget.py. */\n"


def script():
    """Return the script, for a file or a ``<script>`` element."""
    parts = [(SCRIPTS / f"{part}.js").read_text(encoding="utf-8") for part in PARTS]
    return f'{HEAD}(() => {{\n"use strict";\n{"".join(parts)}}})();\n'

"""The script that makes a drawn timeline explorable: zoom, keys, read-outs.

It is put together from the files in ``scripts/``, one a subject, which share their names. It reads
all that it shows from the drawing of ``svg.py``, which stays as it is where no scripts run. Plain
JavaScript, nothing is loaded. The book's pages load it as ``timeline.js`` (`tools.pages`), pages of
the launcher carry it inside.

No library does this: vis-timeline (256 kB minified) and timelines-chart (146 kB) have dates for
an axis and no keys; flame-chart-js (93 kB) draws on a canvas, which no screen reader reads, and
nests its spans; d3-flame-graph has no axis of time; all of them want data in place of the
drawing that is there.
"""

from pathlib import Path

SCRIPTS = Path(__file__).with_name("scripts")
PARTS = ("style", "read", "say", "picture", "view", "widget", "page")  # each uses those before it
HEAD = "/* Makes the timelines of a page explorable; see simgpu/timeline/widget.py. */\n"


def script():
    """Return the script, as it may stand between ``<script>`` and ``</script>``."""
    parts = [(SCRIPTS / f"{part}.js").read_text(encoding="utf-8") for part in PARTS]
    return f'{HEAD}(() => {{\n"use strict";\n{"".join(parts)}}})();\n'

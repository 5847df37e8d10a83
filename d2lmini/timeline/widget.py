"""The script that makes a drawn timeline explorable: zoom, keys, read-outs.

The book's pages load it as a file (``_config.yml``), pages of the launcher carry it inside. It
reads all that it shows from the drawing of ``svg.py``.
"""

from pathlib import Path

SCRIPT = Path(__file__).with_name("timeline.js")


def script():
    """Return the script, as it may stand between ``<script>`` and ``</script>``."""
    return SCRIPT.read_text(encoding="utf-8")

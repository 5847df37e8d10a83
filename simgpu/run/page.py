"""Write the timeline of a run: a page, or a file for Chrome and Perfetto."""

import os

from simgpu.timeline import Timeline, svg, widget

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 14px system-ui, sans-serif; margin: 1.5em; overflow-x: auto }}
pre {{ overflow-x: auto }}
</style>
</head>
<body>
<pre tabindex="0">{text}</pre>
{figure}
<script>
{script}</script>
</body>
</html>
"""


def check(path) -> None:
    """Raise an error if `write` could not write to `path`; None means no file.

    Raises
    ------
    ValueError
        If its suffix is not .html or .json, it is a folder, or its own folder does not exist.
    """
    if path is None:
        return
    if path.suffix not in (".html", ".json"):
        raise ValueError(f"--timeline {path}: the file name must end in .html or .json")
    if path.is_dir():
        raise ValueError(f"--timeline {path}: this is a folder; give a file")
    if not path.parent.is_dir():
        raise ValueError(f"--timeline {path}: there is no folder {path.parent}")


def write(path, spans, steps, text) -> None:
    """Write the timeline of a run.

    Parameters
    ----------
    path : Path
        ``.json``: the whole run, in Chrome's format. ``.html``: a page with `text` and a figure of
        the last step, or of the whole run if there are fewer than two steps or the last one takes
        no time.
    spans : list of Span
        The trace of the run.
    steps : Steps
        Its steps.
    text : str
        The summary.
    """
    beside = path.with_name(f".{path.stem}-{os.getpid()}{path.suffix}")
    try:
        _write(beside, spans, steps, text)
        beside.replace(path)  # there is never half a file under this name
    finally:
        beside.unlink(missing_ok=True)


def _write(path, spans, steps, text):
    if path.suffix == ".json":
        Timeline(spans).to_chrome(path)
        return
    takes_time = any(steps.durations()[-1:])
    window = steps.ends()[-2:] if takes_time else (None, None)
    text = svg.escape(text)
    page = _PAGE.format(
        title=text.splitlines()[0],
        text=text,
        figure=svg.html(Timeline(spans, *window)),
        script=widget.script(),
    )
    path.write_text(page, encoding="utf-8")

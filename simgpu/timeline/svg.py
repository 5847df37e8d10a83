"""Draw timelines as SVG, inside HTML for notebooks or as a standalone document.

The output depends on the spans alone (deterministic ids, rounded coordinates), so stored figures
can be compared exactly. Text and lines have the page's text colour, for light and dark pages.
"""

import hashlib
import html as _html
import re
from collections import Counter

from simgpu.timeline.kinds import OTHER, short_name
from simgpu.timeline.lanes import is_host
from simgpu.timeline.layout import AXIS, CHARACTER, PLOT, ROW, kind_of_box, layout
from simgpu.units import quantity

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_STYLE = (
    ".d2l-tl-text{font:11px system-ui,sans-serif;fill:currentColor}"
    ".d2l-tl-boxes rect{stroke:currentColor;stroke-opacity:.6;stroke-width:.6}"
    ".d2l-tl-boxes text{font:11px system-ui,sans-serif;text-anchor:middle;pointer-events:none;"
    "paint-order:stroke;stroke-width:4px;stroke-linejoin:round}"
    ".d2l-tl-lane{fill:currentColor;fill-opacity:.06}"
    ".d2l-tl-grid{stroke:currentColor;stroke-opacity:.25}"
)
# The book's theme puts a light background behind HTML outputs in dark mode; this removes it.
_HTML_STYLE = (
    "html[data-theme=dark] .bd-content div.cell_output .text_html:has(div.d2l-tl.d2l-tl)"
    "{background:none;color:var(--pst-color-text-base);padding:0}"
    ".d2l-tl{color:inherit;font:11px system-ui,sans-serif;line-height:1.5}"
    ".d2l-tl svg{display:block;max-width:none}"
    ".d2l-tl-body{display:flex}"
    ".d2l-tl-body>svg{flex:none}"
    ".d2l-tl-scroll{overflow-x:auto;min-width:0}"
    ".d2l-tl-legend{display:flex;flex-wrap:wrap;gap:2px 14px;margin:4px 0}"
    ".d2l-tl-legend span{display:flex;align-items:center;gap:5px}"
    ".d2l-tl-note{margin:2px 0}"
)
_DOCUMENT_STYLE = (
    "svg{color:#1a1a1a;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#e6e6e6;background:#14181e}}"
)
_RISING, _FALLING = "M-1 1l2-2M0 6L6 0M5 7l2-2", "M-1 5l2 2M0 0l6 6M5-1l2 2"
_HATCHES = {
    "none": "",
    "rising": _RISING,
    "falling": _FALLING,
    "crossed": _RISING + _FALLING,
    "level": "M0 3h6",
    "upright": "M3 0v6",
    "dotted": "M2 3h2",
}
_NOTE = (
    "Boxes too narrow to draw are joined and look like the kind that took most of their time; "
    "zoom in with .between(start, end) or .last(seconds)."
)


def escape(text, quote=True):
    """Escape a text for SVG and HTML; characters that XML forbids are replaced."""
    return _html.escape(_NOT_XML.sub("\ufffd", text), quote)


def _describe(box, start):
    """Return the tooltip of a box, escaped; `start` is the time at which the axis begins."""
    spans = box.spans
    first = spans[0]
    busy = sum(span.duration for span in spans)
    flops, nbytes = sum(span.flops for span in spans), sum(span.bytes for span in spans)
    if len(spans) == 1:
        lines = [first.name[:80]]
    else:
        names = Counter(short_name(span.name)[:40] for span in spans).most_common(3)
        lines = [", ".join(f"{count} x {name}" for name, count in names)]
        if sum(count for _, count in names) < len(spans):
            lines[0] += f", ... ({len(spans)} operations)"
    lines.append(f"at {quantity(max(0.0, first.start - start), 's')}, lasts {quantity(busy, 's')}")
    streams = sorted({span.stream for span in spans} - {0})
    if streams and not (is_host(first.device) and first.lane):  # there, the lane names the thread
        lines.append("stream " + ", ".join(map(str, streams)))
    if len(spans) == 1 and first.collective:
        lines.append(_collective(first))
    work = [quantity(n, unit) for n, unit in ((flops, "FLOP"), (nbytes, "B")) if n]
    rates = [
        quantity(n / busy, unit) for n, unit in ((flops, "FLOP/s"), (nbytes, "B/s")) if n and busy
    ]
    if work:
        lines.append(", ".join(work) + ("" if not rates else ": " + ", ".join(rates)))
    return escape("\n".join(lines), quote=False)


def _collective(span):
    group = f" in {span.group}" if span.group else ""
    return f"{span.collective}{group}" + (f", {span.ranks} ranks" if span.ranks else "")


def _label(box, width):
    """Return the most informative text that fits in a box, or "" if none does."""
    names = {short_name(span.name) for span in box.spans}
    name, count = min(names), len(box.spans)
    if len(names) > 1:
        texts = [f"{count} x {box.kind}" if box.kind else "", f"{count} operations"]
    elif count > 1:
        texts = [f"{count} x {name}"]
    else:
        texts = [name, *name.split()[:1]]
    room = (width - 6) / CHARACTER
    return next((text for text in texts if text and len(text) <= room), "")


def _draw_box(box, y, figure, prefix):
    looks, kind = figure.looks, kind_of_box(box)
    kind = kind if kind in looks else OTHER
    look, width = looks[kind], max(box.right - box.left, 0.7)
    fill = f"url(#{prefix}-{list(looks).index(kind)})"
    text = _label(box, width)
    if text:
        middle = (box.left + box.right) / 2
        text = (
            f'<text x="{middle:.1f}" y="{y + 15}" fill="{look.ink}" stroke="{look.fill}">'
            f"{escape(text)}</text>"
        )
    return (
        f"<g><title>{_describe(box, figure.start)}</title>"
        f'<rect x="{box.left:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 4}" fill="{fill}"/>'
        f"{text}</g>"
    )


def _draw_plot(figure, prefix):
    """Draw everything to the right of the lane names."""
    bottom = figure.height - AXIS
    parts = []
    for _, y, rows in figure.lanes:
        height = len(rows) * ROW - 4
        parts.append(f'<rect class="d2l-tl-lane" x="0" y="{y}" width="{PLOT}" height="{height}"/>')
    for x, label in figure.ticks:
        anchor = "start" if x < 16 else "end" if x > PLOT - 16 else "middle"
        parts.append(f'<path class="d2l-tl-grid" d="M{x:.1f} 0V{bottom}"/>')
        parts.append(
            f'<text class="d2l-tl-text" x="{x:.1f}" y="{bottom + 15}" text-anchor="{anchor}">'
            f"{label}</text>"
        )
    parts.append('<g class="d2l-tl-boxes">')
    for _, y, rows in figure.lanes:
        for number, row in enumerate(rows):
            parts += [_draw_box(box, y + number * ROW, figure, prefix) for box in row]
    return "\n".join([*parts, "</g>"])


def _draw_labels(figure):
    """Draw the names of the lanes, and of the axis below."""
    axis = f"{'simulated ' if figure.simulated else ''}time ({figure.unit})"
    names = [
        (label, y + 14, f"<title>{escape(hint)}</title>" if hint else "")
        for (label, y, _), hint in zip(figure.lanes, figure.hints, strict=True)
    ]
    return "\n".join(
        f'<text class="d2l-tl-text" x="{figure.label_width - 6}" y="{y}" text-anchor="end">'
        f"{escape(text)}{hint}</text>"
        for text, y, hint in [*names, (axis, figure.height - AXIS + 15, "")]
    )


def _draw_patterns(looks, prefix):
    parts = ["<defs>"]
    for number, look in enumerate(looks.values()):
        hatch = _HATCHES[look.hatch]
        lines = (
            f'<path d="{hatch}" stroke="#000" stroke-opacity=".55" fill="none"/>' if hatch else ""
        )
        parts.append(
            f'<pattern id="{prefix}-{number}" width="6" height="6" patternUnits="userSpaceOnUse">'
            f'<path d="M0 0h6v6H0z" fill="{look.fill}"/>{lines}</pattern>'
        )
    return "".join([*parts, "</defs>"])


def _prefix(figure):
    """Return a prefix for ids that differs between figures, but not between runs."""
    text = _draw_labels(figure) + _draw_plot(figure, "")
    return "tl" + hashlib.sha256(text.encode()).hexdigest()[:8]


def _left_out(figure, length=400):
    """Return the note that names the lanes not drawn."""
    names = ", ".join(figure.left_out)
    names = names if len(names) <= length else names[:length].rpartition(", ")[0] + ", ..."
    count = len(figure.left_out)
    return f"Not drawn, for lack of room: {count} lanes ({names}). .lanes() and .busy() have all."


def html(timeline):
    """Return the figure as HTML; it scrolls horizontally if it does not fit."""
    figure = layout(timeline)
    prefix = _prefix(figure)
    legend = "".join(
        f'<span><svg class="d2l-tl-boxes" width="18" height="12"><rect x=".5" y=".5" width="17" '
        f'height="11" fill="url(#{prefix}-{i})"/></svg>{escape(kind)}</span>'
        for i, kind in enumerate(figure.looks)
    )
    size = f'height="{figure.height}" xmlns="http://www.w3.org/2000/svg"'
    notes = [_NOTE] if figure.joined else []
    notes += [escape(_left_out(figure))] if figure.left_out else []
    note = "".join(f'<div class="d2l-tl-note">{text}</div>' for text in notes)
    return (
        f'<div class="d2l-tl"><style>{_STYLE}{_HTML_STYLE}</style>\n'
        f'<div class="d2l-tl-legend">{legend}</div>\n'
        f'<div class="d2l-tl-body"><svg width="{figure.label_width}" {size}>\n'
        f"{_draw_labels(figure)}\n</svg>\n"
        f'<div class="d2l-tl-scroll" tabindex="0" role="region" aria-label="Timeline">'
        f'<svg width="{PLOT}" {size} role="img" aria-label="{escape(figure.title)}">\n'
        f"{_draw_patterns(figure.looks, prefix)}\n{_draw_plot(figure, prefix)}\n"
        f"</svg></div></div>\n{note}</div>"
    )


def document(timeline):
    """Return the figure as a standalone SVG document, with the legend below."""
    figure = layout(timeline)
    prefix = _prefix(figure)
    left = figure.label_width
    x, y, legend = left, figure.height + 8, []
    for number, kind in enumerate(figure.looks):
        width = 40 + len(kind) * CHARACTER
        if x > left and x + width > left + PLOT:
            x, y = left, y + 18
        legend.append(
            f'<g class="d2l-tl-boxes"><rect x="{x:.1f}" y="{y}" width="17" height="11" '
            f'fill="url(#{prefix}-{number})"/></g><text class="d2l-tl-text" x="{x + 23:.1f}" '
            f'y="{y + 10}">{escape(kind)}</text>'
        )
        x += width
    if figure.left_out:
        y += 22
        legend.append(
            f'<text class="d2l-tl-text" x="8" y="{y + 10}">{escape(_left_out(figure, 30))}</text>'
        )
    width, height = left + PLOT + 8, y + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(figure.title)}">\n'
        f"<style>{_STYLE}{_DOCUMENT_STYLE}</style>\n{_draw_patterns(figure.looks, prefix)}\n"
        f'{_draw_labels(figure)}\n<g transform="translate({left})">\n'
        f"{_draw_plot(figure, prefix)}\n</g>\n" + "\n".join(legend) + "\n</svg>\n"
    )

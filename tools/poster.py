"""The pictures of the front page: ``python -m tools.poster`` draws them.

The timelines are those of real programs on simulated GPUs (`tools.figures.hero`). The one that
stands there without JavaScript, on paper and in notebooks is a step of the language model on
eight GPUs.
"""

from pathlib import Path

from simgpu.units import BLUE, MUTED
from tools.canvas import FONT, LINK
from tools.figures import hero
from tools.pictographs import pictographs

FOLDER = Path(__file__).parents[1] / "assets" / "front"
RANKS = max(hero.COUNTS)
WIDTH, LANE, ROW, LEFT, RIGHT, TOP, BOTTOM = 960, 15, 44, 84, 12, 40, 34
CLOSE = 2e-5  # seconds: spans nearer than that look like one
STYLE = (
    f"text{{fill:#24292f}}.faint{{fill:{MUTED.lower()}}}line{{stroke:#8c959f;stroke-opacity:.5}}"
)


def joined(spans):
    """Return the times in which something ran, ``[(start, end), ...]``."""
    times = []
    for span in sorted(spans, key=lambda span: span.start):
        if times and span.start - times[-1][1] < CLOSE:
            times[-1][1] = max(times[-1][1], span.start + span.duration)
        else:
            times.append([span.start, span.start + span.duration])
    return times


def row(lanes, rank):
    """Return the lanes of a rank: name, colour, times."""
    kinds = {"computes": ("compute", BLUE), "sends": ("comm", LINK)}
    for word, (engine, colour) in kinds.items():
        yield word, colour, joined(lanes.get((f"rank {rank} sim:{rank}", engine), []))


def draw(timeline):
    """Return a timeline as SVG: computation above, communication below, for every GPU.

    It is drawn twice, and shown once: where the picture is small, its letters are larger.
    """
    height = TOP + RANKS * ROW + BOTTOM
    groups = []
    for name, left, size in (("wide", LEFT, 15), ("small", 128, 30)):
        drawn = [*head(left, size), *marks(timeline, left, height)]
        groups += [f'<g class="{name}" font-size="{size}">', *drawn, "</g>"]
    return document(height, timeline.end - timeline.start, groups)


def marks(timeline, left, height):
    """Draw the axis and the GPUs, from an x on."""
    lanes, start, end = timeline.lanes(), timeline.start, timeline.end
    scale = (WIDTH - left - RIGHT) / (end - start)
    out = []
    for tick in range(0, int((end - start) * 1e3) + 1, 2):
        x = left + tick * 1e-3 * scale
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height - 28}"/>')
        out.append(f'<text class="faint" x="{x:.1f}" y="{height - 6}">{tick}</text>')
    for rank in range(RANKS):
        top = TOP + rank * ROW
        middle = f'x="{left - 12}" y="{top + LANE + 1}"'
        out.append(f'<text class="gpu" {middle} dy=".35em">GPU {rank}</text>')
        for lane, (_, colour, times) in enumerate(row(lanes, rank)):
            y = top + lane * (LANE + 3)
            for begin, finish in times:
                x, width = (begin - start) * scale, max(0.6, (finish - begin) * scale)
                out.append(
                    f'<rect x="{left + max(x, 0):.1f}" y="{y}" width="{width:.1f}" '
                    f'height="{LANE}" fill="{colour}"/>'
                )
    return out


def head(left, size):
    """Say above the GPUs what the colours mean, and what the axis counts where there is room."""
    box, second = round(0.8 * size), left + 8 * size
    unit = "milliseconds, simulated" if size < 20 else "ms, simulated"
    return [
        f'<rect x="{left}" y="{24 - box}" width="{box}" height="{box}" fill="{BLUE}"/>',
        f'<text class="key" x="{left + 1.2 * size:.0f}" y="23">computes</text>',
        f'<rect x="{second}" y="{24 - box}" width="{box}" height="{box}" fill="{LINK}"/>',
        f'<text class="key" x="{second + 1.2 * size:.0f}" y="23">exchanges gradients</text>',
        f'<text class="faint end" x="{WIDTH - RIGHT}" y="23">{unit}</text>',
    ]


def document(height, seconds, drawn):
    """Return the drawing as a document, with what it shows in words."""
    title = f"One training step of a small language model on {RANKS} GPUs"
    words = (
        f"A timeline of {seconds * 1e3:.1f} ms. Each GPU computes nearly all the time; "
        "during the backward pass it already sends its gradients to the others."
    )
    style = STYLE + "text{text-anchor:middle}.key{text-anchor:start}"
    style += ".gpu,.end{text-anchor:end}.gpu{font-weight:600}.small{display:none}"
    style += "@media(max-width:600px){.wide{display:none}.small{display:inline}}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="t d" '
        f'font-family="{FONT}">\n<title id="t">{title}</title>\n<desc id="d">{words}</desc>\n'
        f"<style>{style}</style>\n" + "\n".join(drawn) + "\n</svg>\n"
    )


def render_all():
    """Return every picture of the front page, by its file's name."""
    found = hero.runs()
    static = draw(found["language", RANKS].whole)
    return {"timeline.svg": static, "runs.html": hero.page(found), **pictographs()}


def main():
    """Write the pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, svg in render_all().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()

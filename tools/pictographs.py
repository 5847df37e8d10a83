"""A small drawing for each chapter: what it is about, in a few boxes and lines."""

from simgpu.units import BLUE, GREEN, ORANGE, PURPLE, VERMILION

GREY = "#8C959F"
WIDTH, HEIGHT = 160, 90


def box(x, y, width, height, colour, opacity=1.0):
    """Return a box."""
    faint = f' fill-opacity="{opacity}"' if opacity < 1 else ""
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="3" fill="{colour}"{faint}/>'
    )


def line(points, colour=GREY, width=2.5, dashed=False):
    """Return a line through points."""
    path = " ".join(f"{x},{y}" for x, y in points)
    dash = ' stroke-dasharray="4 4"' if dashed else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dash}/>'


def ring(x, y, radius, colour):
    """Return a circle's line."""
    return (
        f'<circle cx="{x}" cy="{y}" r="{radius}" fill="none" stroke="{colour}" stroke-width="3"/>'
    )


def devices():
    """Draw the host launches, the GPU works later, with gaps."""
    launches = [box(14 + 17 * i, 20, 12, 14, GREY) for i in range(8)]
    return launches + [box(30 + 34 * i, 52, 16, 20, BLUE) for i in range(4)]


def auto_parallelism():
    """Draw copies hide behind products."""
    work = [box(14 + 34 * i, 20, 31, 20, BLUE) for i in range(4)]
    return work + [box(48 + 34 * i, 50, 16, 20, ORANGE) for i in range(3)]


def multiple_gpus():
    """Draw more GPUs, longer bars."""
    heights = (12, 22, 40, 66)
    bars = [box(22 + 32 * i, 78 - h, 20, h, BLUE) for i, h in enumerate(heights)]
    return [*bars, line([(14, 66), (146, 74)], VERMILION, dashed=True)]


def multiple_gpus_concise():
    """Draw one program, four processes."""
    boxes = [box(14 + 35 * i, 50, 27, 26, c) for i, c in enumerate((BLUE, GREEN, PURPLE, ORANGE))]
    wires = [line([(80, 28), (27 + 35 * i, 50)]) for i in range(4)]
    return [*wires, box(62, 12, 36, 18, GREY), *boxes]


def feeding():
    """Draw workers on several cores, a few batches, and the GPU that waits for them."""
    cores = [box(14, 10 + 18 * i, 26, 14, PURPLE) for i in range(4)]
    ways = [line([(40, 17 + 18 * i), (66, 45)]) for i in range(4)]
    batches = [box(66 + 18 * i, 37, 14, 16, ORANGE) for i in range(2)]
    return [*ways, *cores, *batches, line([(96, 45), (112, 45)]), box(112, 22, 36, 46, BLUE, 0.4)]


def overlap_and_scaling():
    """Draw the gain flattens."""
    points = [(18, 74), (40, 54), (64, 40), (92, 31), (122, 27), (146, 26)]
    ideal = line([(18, 74), (80, 14)], GREY, dashed=True)
    return [ideal, line(points, BLUE, 4), line([(14, 80), (148, 80)])]


def memory_and_sharding():
    """Draw what one GPU cannot hold, a quarter of it on each of four."""
    whole = [box(20, 12, 26, 34, PURPLE), box(20, 46, 26, 18, BLUE), box(20, 64, 26, 14, GREEN)]
    shards = []
    for i in range(4):
        x = 66 + 22 * i
        shards += [box(x, 56, 16, 9, PURPLE), box(x, 65, 16, 7, BLUE), box(x, 72, 16, 6, GREEN)]
    return [*whole, line([(12, 36), (152, 36)], VERMILION, dashed=True), *shards]


def collectives():
    """Draw a ring of GPUs."""
    places = [(80, 16), (118, 34), (118, 62), (80, 78), (42, 62), (42, 34)]
    chips = [box(x - 9, y - 8, 18, 16, (BLUE, GREEN)[i % 2]) for i, (x, y) in enumerate(places)]
    return [line([*places, places[0]]), *chips]


def tensor_parallelism():
    """Draw a matrix in four columns."""
    columns = [box(50 + 16 * i, 18, 14, 56, c) for i, c in enumerate((BLUE, GREEN, PURPLE, ORANGE))]
    return [box(18, 18, 20, 56, GREY, 0.6), *columns, box(126, 18, 20, 56, GREY, 0.6)]


def pipeline_parallelism():
    """Draw the staircase of a pipeline."""
    colours = (BLUE, GREEN, PURPLE, ORANGE)
    return [
        box(14 + 17 * (stage + batch), 12 + 18 * stage, 15, 15, colours[stage])
        for stage in range(4)
        for batch in range(5)
    ]


def experts():
    """Draw tokens that are sent to four experts, of which one is busy."""
    colours, loads = (BLUE, GREEN, PURPLE, ORANGE), (2, 4, 1, 1)
    tokens = [box(14, 10 + 9 * i, 12, 7, GREY) for i in range(8)]
    ways = [
        line([(30, 13 + 9 * i), (82, 20 + 18 * e)]) for i, e in enumerate((1, 0, 1, 3, 1, 2, 0, 1))
    ]
    work = [
        box(88 + 15 * i, 13 + 18 * e, 13, 14, colours[e]) for e in range(4) for i in range(loads[e])
    ]
    return [*ways, *tokens, *work]


def long_sequences():
    """Draw a causal mask, cut into chunks, which ranks have in zigzag order."""
    colours = (BLUE, GREEN, PURPLE, PURPLE, GREEN, BLUE)
    return [
        box(36 + 15 * key, 3 + 14 * query, 13, 12, colours[query])
        for query in range(6)
        for key in range(query + 1)
    ]


def putting_it_together():
    """Draw sixteen GPUs in two nodes, of which two stages have two shards each."""
    colours = (BLUE, GREEN, PURPLE, ORANGE)
    return [
        box(
            16 + 16 * column + 10 * (column // 4),
            14 + 30 * row,
            13,
            24,
            colours[2 * row + column // 4],
        )
        for row in range(2)
        for column in range(8)
    ]


def capstone():
    """Draw eight ranks at the corners of a cube, one of them with a fault."""
    corners = [(30 + 62 * (r & 1) + 38 * (r >> 2), 66 - 36 * (r >> 1 & 1) - 18 * (r >> 2))
               for r in range(8)]  # fmt: skip
    edges = [line([corners[r], corners[r | bit]]) for bit in (1, 2, 4) for r in range(8)
             if not r & bit]  # fmt: skip
    colours = [VERMILION if r == 5 else BLUE for r in range(8)]
    ranks = zip(corners, colours, strict=True)
    return edges + [box(x - 8, y - 8, 16, 16, colour) for (x, y), colour in ranks]


CHAPTERS = (
    devices, auto_parallelism, multiple_gpus, multiple_gpus_concise, feeding,
    overlap_and_scaling, memory_and_sharding, collectives, tensor_parallelism, pipeline_parallelism,
    long_sequences, experts, putting_it_together, capstone,
)  # fmt: skip


def pictographs():
    """Return all of them, by their files' names."""
    return {
        f"{draw.__name__.replace('_', '-')}.svg": (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}">\n' + "\n".join(draw()) + "\n</svg>\n"
        )
        for draw in CHAPTERS
    }

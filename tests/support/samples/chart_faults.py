"""What cannot be read in a chart."""

from itertools import combinations

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Annotation

from benchmarks import charts


def faults(figure):
    """Return what cannot be read in a chart; an empty list if all can."""
    with mpl.rc_context(charts.SETTINGS):
        renderer = FigureCanvasAgg(figure).get_renderer()
        figure.draw(renderer)
        texts = figure.findobj(lambda artist: isinstance(artist, Annotation) and artist.get_text())
        boxes = {text: text.get_window_extent(renderer) for text in texts}
    words = {text: text.get_text() for text in texts}
    edge = figure.bbox
    found = [
        f"{words[text]!r} leaves the chart"
        for text, box in boxes.items()
        if box.x0 < edge.x0 or box.x1 > edge.x1 or box.y0 < edge.y0 or box.y1 > edge.y1
    ]
    for a, b in combinations(texts, 2):
        if boxes[a].overlaps(boxes[b]):
            found.append(f"{words[a]!r} overlaps {words[b]!r}")
    return found

"""Made-up rows of benchmarks."""

from benchmarks.measure import Row, Side

LONG = "one shuffled pass over all images, in batches of 256 and a long name"


def side(label, median, spread=0.1):
    return Side(label, [median * (1 + spread * step / 4) for step in (-1, 2, 0, 1, -2)])


def example_rows():
    yield Row("lenet", "one epoch", "s", side("ours", 5), side("d2l", 8), goal=1.3, note="why")
    yield Row("loader", LONG, "images/s", side("ours", 9e5), side("d2l", 1e4), goal=100)
    yield Row("book", "page intro.html", "B", Side("d2lmini", [123456]))
    yield Row("sim", "one operation", "s", side("simulated", 2e-5), limit=6e-5)

"""A made-up record, and the rows it consists of."""

import copy
from dataclasses import replace

from benchmarks.measure import Row, Side
from benchmarks.records import Record

PROVENANCE = {
    "date": "2026-01-31T12:34:56+00:00",
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "modified": False,
    "load": 0.5,
    "hardware": {
        "cpu": "Example CPU @ 2.00GHz",
        "instructions": "AVX2",
        "cores": 2,
        "threads": 2,
        "memory": 8 * 2**30,
        "gpus": [],
    },
    "versions": {
        "python": "3.12.1",
        "torch": "2.13.0",
        "d2lmini": "0.1.0",
        "system": "Linux x86_64",
    },
}
LONG = "one shuffled pass over all images, in batches of 256 and a long name"


def side(label, median, spread=0.1):
    return Side(label, [median * (1 + spread * step / 4) for step in (-1, 2, 0, 1, -2)])


def example_rows():
    yield Row("lenet", "one epoch", "s", side("ours", 5), side("d2l", 8), goal=1.3, note="why")
    yield Row("loader", LONG, "images/s", side("ours", 9e5), side("d2l", 1e4), goal=100)
    yield Row("book", "page intro.html", "B", Side("d2lmini", [123456]))
    yield Row("sim", "one operation", "s", side("simulated", 2e-5), limit=6e-5)
    for size, seconds in {4096: 5e-5, 65536: 6e-5, 2**20: 2e-4, 2**24: 4e-3}.items():
        common = {"plot": "k = 2", "x": size}
        star, ring = side("star", seconds), side("ring", 2 * seconds, 0.5)
        yield Row("allreduce", f"{size} B: star", "s", star, **common)
        yield Row("allreduce", f"{size} B: ring", "s", ring, star, **common)


def example_record(**changes):
    made = Record(**copy.deepcopy(PROVENANCE), rows=list(example_rows()))
    return replace(made, **changes)

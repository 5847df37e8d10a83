"""A made-up record, and the rows it consists of."""

import copy

from benchmarks import records
from benchmarks.measure import Row, Settings, Side

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


def side(label, median, spread=0.1):
    return Side(label, [median * (1 + spread * step / 4) for step in (-1, 2, 0, 1, -2)])


def example_rows():
    sizes = {4096: 5e-5, 65536: 6e-5, 2**20: 2e-4, 2**24: 4e-3}
    found = [
        Row("lenet", "one epoch", "s", side("ours", 5), side("d2l", 8), goal=1.3, note="why"),
        Row(
            "loader",
            "one shuffled pass over all images, in batches of 256 and a long name",
            "images/s",
            side("ours", 9e5),
            side("d2l", 1e4),
            goal=100,
            higher_is_better=True,
        ),
        Row("book", "page intro.html", "B", Side("d2lmini", [123456]), exact=True),
    ]
    for size, seconds in sizes.items():
        common = {"plot": "k = 2", "x": size}
        star, ring = side("star", seconds), side("ring", 2 * seconds, 0.5)
        found += [
            Row("allreduce", f"{size} B: star", "s", star, **common),
            Row("allreduce", f"{size} B: ring", "s", ring, star, **common),
        ]
    for i in range(10):
        found.append(Row("sim", f"operation {i}", "s", side("simulated", 2), side("cpu", 1)))
    return found


def example_record(**changes):
    made = records.from_rows(example_rows(), copy.deepcopy(PROVENANCE), Settings())
    return {**made, **changes}

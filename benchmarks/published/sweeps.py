"""The sweeps of collectives that chose the constants of ``simgpu/network/measured.py``.

``sweeps.csv`` holds times of nccl-tests that other people published (columns ``system``, ``gpus``,
``nodes``, ``collective``, ``bytes``, ``time_us``, ``source``). None of them is in a table by which
predictions are judged. Times are facts; the source says under which licence they were published.

    python -m benchmarks.published.sweeps

prints, for each machine, the error on its rows, and the error if all other machines choose the
constants instead.
"""

import csv
import math
import statistics
import sys
from pathlib import Path

from benchmarks.published.systems import find_system
from simgpu.network import measured
from simgpu.network.collective_costs import cost, forget

PATH = Path(__file__).with_name("sweeps.csv")
LEAST = 2**21  # bytes: below, latency decides, and with it the host
# Where one thread launches on eight GPUs ("-g 8" in the source), the host decides up to this size.
HOST = 2**23
GRID = {"WIRE": (0.92, 0.94, 0.96, 0.98, 1.0), "FILL": tuple(2**18 * n for n in (2, 3, 4, 5, 6, 8))}


def rows():
    """Return ``[(system, collective, bytes, seconds, arguments of cost)]``."""
    found = []
    with open(PATH, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            gpus, size = int(row["gpus"]), int(row["bytes"])
            cluster, _ = find_system(row["system"], gpus, int(row["nodes"]))
            members = range(2 if row["collective"] == "send" else gpus)
            call = (row["collective"], size, members, cluster)
            found.append((row, size, float(row["time_us"]) * 1e-6, call, gpus))
    return found


def chosen_by(found):
    """Return the rows that may choose constants: where neither host nor single channels decide.

    Sends are left out, since their constant is a channel's rate; so is the all-to-all over two
    nodes of B200s, whose cards move half of what they do in all other tests of the same report.
    """
    kept = []
    for one in found:
        row, size = one[:2]
        if size < LEAST or row["collective"] == "send":
            continue
        if row["source"].endswith(("-g 8", "-g 8 (inferred)")) and size < HOST:
            continue
        if row["collective"] == "all_to_all" and (row["nodes"] != "1" or size < 4 * HOST):
            continue
        kept.append(one)
    return kept


def errors(found):
    """Return ``log(predicted / measured)`` of each row."""
    forget()
    return [
        math.log(cost(*call, ranks=gpus).seconds / seconds) for _, _, seconds, call, gpus in found
    ]


def loss(found):
    """Return the mean error, each machine and collective counted once."""
    groups = {}
    for (row, *_), error in zip(found, errors(found), strict=True):
        groups.setdefault((row["system"], row["collective"]), []).append(abs(error))
    return statistics.mean(statistics.mean(group) for group in groups.values())


def best(found):
    """Return the constants of `GRID` with the lowest loss, as ``(WIRE, FILL)``."""
    kept = measured.WIRE, measured.FILL
    try:
        tries = {}
        for wire in GRID["WIRE"]:
            for fill in GRID["FILL"]:
                measured.WIRE, measured.FILL = wire, fill
                tries[wire, fill] = loss(found)
        return min(tries, key=tries.get)
    finally:
        measured.WIRE, measured.FILL = kept
        forget()


def left_out(found):
    """Return ``{system: (constants that the others choose, median error with these)}``."""
    result = {}
    for system in dict.fromkeys(one[0]["system"] for one in found):
        own = [one for one in found if one[0]["system"] == system]
        constants = best([one for one in found if one[0]["system"] != system])
        kept = measured.WIRE, measured.FILL
        try:
            measured.WIRE, measured.FILL = constants
            median = statistics.median(abs(math.exp(error) - 1) for error in errors(own))
        finally:
            measured.WIRE, measured.FILL = kept
            forget()
        result[system] = constants, median
    return result


def main():
    """Print the errors of each machine."""
    found = chosen_by(rows())
    print(f"{len(found)} rows choose WIRE, FILL = {best(found)}")
    for system, (constants, median) in left_out(found).items():
        own = [one for one in found if one[0]["system"] == system]
        here = statistics.median(abs(math.exp(error) - 1) for error in errors(own))
        print(f"{here:6.3f}; left out {median:6.3f} with {constants}: {system}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

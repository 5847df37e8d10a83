"""The sweeps of collectives that chose the constants of ``simgpu/network/measured.py``.

``sweeps.csv`` holds times of nccl-tests that other people published (columns ``system``, ``gpus``,
``nodes``, ``collective``, ``bytes``, ``time_us``, ``source``). None of them is in a table by which
predictions are judged. Times are facts; the source says under which licence they were published.

    python -m benchmarks.published.sweeps

prints, for each machine, the error on its rows, and the error if all other machines choose the
constants instead.
"""

import csv
import itertools
import math
import statistics
import sys
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from benchmarks.published.shared.systems import find_system
from simgpu.network import measured
from simgpu.network.collective_costs import cost, forget

PATH = Path(__file__).with_name("sweeps.csv")
LEAST = 2**21  # bytes: below, latency decides, and with it the host
# Where one thread launches on eight GPUs ("-g 8" in the source), the host decides up to this size.
HOST = 2**23
START_FROM = "8 x B200 NVLink5"  # the machine that `measured.START` is fitted to
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


@contextmanager
def constants(wire, fill):
    """Have these constants within the block."""
    kept = measured.WIRE, measured.FILL
    try:
        measured.WIRE, measured.FILL = wire, fill
        forget()
        yield
    finally:
        measured.WIRE, measured.FILL = kept
        forget()


def loss(found, by_row):
    """Return the mean error, each machine and collective counted once; `by_row` are `errors`."""
    groups = {}
    for (row, *_), error in zip(found, by_row, strict=True):
        groups.setdefault((row["system"], row["collective"]), []).append(abs(error))
    return statistics.mean(statistics.mean(group) for group in groups.values())


def tries(found):
    """Return ``{(WIRE, FILL): errors}`` for all constants of `GRID`."""
    result = {}
    for pair in itertools.product(GRID["WIRE"], GRID["FILL"]):
        with constants(*pair):
            result[pair] = errors(found)
    return result


def best(found, tried=None, without=None):
    """Return the constants of `GRID` with the lowest loss, as ``(WIRE, FILL)``.

    `tried` is what `tries` returns for these rows; those of the system `without` do not count.
    """
    tried = tries(found) if tried is None else tried
    count = [one[0]["system"] != without for one in found]
    rows_that_count = list(itertools.compress(found, count))
    return min(tried, key=lambda p: loss(rows_that_count, itertools.compress(tried[p], count)))


def left_out(found):
    """Return ``{system: (constants that the others choose, median error with these)}``."""
    result, tried = {}, tries(found)
    for system in dict.fromkeys(one[0]["system"] for one in found):
        chosen = best(found, tried, system)
        own = [e for one, e in zip(found, tried[chosen], strict=True) if one[0]["system"] == system]
        result[system] = chosen, statistics.median(abs(math.exp(error) - 1) for error in own)
    return result


def is_judged(one):
    """Say whether a row tests a prediction.

    Sends do not, nor small messages of the machine and the kinds that `measured.START` is fitted
    to, nor what one thread launched on eight GPUs and was over so soon that the launching decided.
    """
    row, size = one[:2]
    kind = row["collective"]
    fitted = row["system"] == START_FROM and kind in measured.START and size < LEAST
    one_thread = row["source"].endswith(("-g 8", "-g 8 (inferred)")) and size < HOST
    return kind != "send" and not fitted and not one_thread


@lru_cache(maxsize=1)
def judged():
    """Return ``[(row, bytes, predicted over measured)]`` of the rows that test a prediction.

    Each machine's rows are predicted with the constants that all other machines choose.
    """
    found, result = rows(), []
    for system, (pair, _) in left_out(chosen_by(found)).items():
        own = [one for one in found if one[0]["system"] == system and is_judged(one)]
        with constants(*pair):
            result += [(*one[:2], math.exp(e)) for one, e in zip(own, errors(own), strict=True)]
    return result


def main():
    """Print the errors of each machine."""
    found = chosen_by(rows())
    print(f"{len(found)} rows choose WIRE, FILL = {best(found)}")
    for system, (pair, median) in left_out(found).items():
        own = [one for one in found if one[0]["system"] == system]
        here = statistics.median(abs(math.exp(error) - 1) for error in errors(own))
        print(f"{here:6.3f}; left out {median:6.3f} with {pair}: {system}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

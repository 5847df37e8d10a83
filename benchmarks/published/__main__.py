"""Predict every row of a table of published measurements: ``python -m benchmarks.published``.

Prints each row with predicted over measured time, the rows that cannot be predicted and why, what
parameters were fitted to, and at the end one line of JSON.
"""

import argparse
import json
import sys

from benchmarks.published.score import score
from benchmarks.published.tables import FAMILIES, UnknownTableError, read
from simgpu.units import quantity, size


def main(arguments=None):
    """Run the command; return the exit status: 2 if no family knows the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.published", description=__doc__)
    parser.add_argument("file", help="a table (CSV) with the columns of a known family")
    try:
        table = read(parser.parse_args(arguments).file)
    except UnknownTableError as error:
        print(error)
        return 2
    print("predicted / measured")
    for p in table.predictions:
        print(f"{p.ratio:6.3f}  {values(p):22}  {p.system} [{p.preset}] {p.what}{remarks(p)}")
    for line, reason in table.refused:
        print(f"line {line} not predicted: {reason}")
    print(f"fitted: {FAMILIES[table.family].FITTED}")
    result = {"family": table.family, **score(table.predictions)}
    print(json.dumps({**result, "not_predicted": len(table.refused)}))
    return 0


def values(p):
    """Write what is predicted and what was measured."""
    if p.measured is None:
        return " / ".join(size(round(n)) for n in p.memory[::-1])
    return f"{quantity(p.predicted, 's')} / {quantity(p.measured, 's')}"


def remarks(p):
    """Write a row's memory, and what it leaves open."""
    words = ""
    if p.memory and p.measured is not None:
        peaks = " / ".join(f"{n / 2**30:.1f}" for n in p.memory[::-1])
        words = f"; memory {p.memory[1] / p.memory[0]:.3f} {peaks} GiB"
    return f"{words}; {p.assumed}" if p.assumed else words


if __name__ == "__main__":
    sys.exit(main())

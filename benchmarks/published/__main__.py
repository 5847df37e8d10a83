"""Predict every row of a table of published measurements: ``python -m benchmarks.published``.

Prints each row with predicted over measured time, the rows that cannot be predicted and why, what
parameters were fitted to, and at the end one line of JSON.
"""

import argparse
import json
import sys

from benchmarks.published.score import score
from benchmarks.published.tables import FAMILIES, UnknownTableError, read
from d2lmini.units import quantity


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
        times = f"{quantity(p.predicted, 's')} / {quantity(p.measured, 's')}"
        print(f"{p.ratio:6.3f}  {times:22}  {p.system} [{p.preset}] {p.what}")
    for line, reason in table.refused:
        print(f"line {line} not predicted: {reason}")
    print(f"fitted: {FAMILIES[table.family].FITTED}")
    result = {"family": table.family, **score(table.predictions)}
    print(json.dumps({**result, "not_predicted": len(table.refused)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

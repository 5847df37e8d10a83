"""Predict every row of a table of published measurements: ``python -m benchmarks.published``.

Prints each row with predicted over measured time, the rows that cannot be predicted and why, what
parameters were fitted to, and at the end one line of JSON.
"""

import argparse
import csv
import json
import sys

from benchmarks.published import collectives, vtrain
from benchmarks.published.rows import UnpredictableError
from benchmarks.published.score import score
from d2lmini.units import quantity

FAMILIES = {"collectives": collectives, "vtrain": vtrain}


def find_family(columns):
    """Return the name of the family whose columns are all there, None if there is none."""
    return next((n for n, family in FAMILIES.items() if family.COLUMNS.issubset(columns)), None)


def predict_rows(family, rows):
    """Return the predictions, and (line, reason) of the rows without one."""
    predictions, refused = [], []
    for line, row in enumerate(rows, 2):  # the header is line 1
        found = _predict_row(family, row)
        if isinstance(found, UnpredictableError):
            refused.append((line, str(found)))
        else:
            predictions.append(found)
    return predictions, refused


def _predict_row(family, row):
    try:
        return FAMILIES[family].predict(row)
    except UnpredictableError as error:
        return error


def main(arguments=None):
    """Run the command; return the exit status: 2 if no family knows the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.published", description=__doc__)
    parser.add_argument("file", help="a table (CSV) with the columns of a known family")
    path = parser.parse_args(arguments).file
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, restval="")
        rows, columns = list(reader), reader.fieldnames or []
    family = find_family(columns)
    if family is None:
        known = (f"  {name}: {', '.join(sorted(f.COLUMNS))}" for name, f in FAMILIES.items())
        print(f"{path}: no family knows this table. Columns that are needed:", *known, sep="\n")
        return 2
    predictions, refused = predict_rows(family, rows)
    print("predicted / measured")
    for p in predictions:
        times = f"{quantity(p.predicted, 's')} / {quantity(p.measured, 's')}"
        print(f"{p.ratio:6.3f}  {times:22}  {p.system} [{p.preset}] {p.what}")
    for line, reason in refused:
        print(f"line {line} not predicted: {reason}")
    print(f"fitted: {FAMILIES[family].FITTED}")
    print(json.dumps({"family": family, **score(predictions), "not_predicted": len(refused)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

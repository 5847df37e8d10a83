"""Run the gallery and write the record, or run what holds a text."""

import argparse
import statistics

from benchmarks.compiled.runs import run_once
from benchmarks.gallery import record, runs


def main(arguments=None):
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gallery", description=__doc__)
    parser.add_argument("text", nargs="?", default="", help="only runs with it; writes no record")
    options = parser.parse_args(arguments)
    rows = []
    for run in runs.read():
        if options.text in run.name:
            rows.append(record.row_of(run, run_once(run)))
            row = rows[-1]
            times = f"{row.seconds * 1e3:8,.1f} ms ({run.seconds * 1e3:,.1f})"
            print(f"{row.ratio:5.2f}  {times}  {row.peak / 2**30:5.1f} GiB ({run.gib})  {run.name}",
                  flush=True)  # fmt: skip
    if not options.text:
        record.write(rows)
    print(f"published over predicted: {statistics.median(row.ratio for row in rows):.2f}")


if __name__ == "__main__":
    main()

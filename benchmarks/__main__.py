"""Measure, against what a reader would use instead: ``python -m benchmarks``.

Prints tables: the median over the repetitions and, in brackets, the smallest and largest values.
Each row is measured alternately with what it is compared with, and the speedup is computed round by
round; above 1, the row is the faster of the two. A limit is a bound to stay under.
"""

import argparse
import json
import sys
import time
import traceback
from pathlib import Path

from benchmarks.cases import BENCHMARKS, load
from benchmarks.measure import Settings
from benchmarks.provenance import describe, provenance
from benchmarks.table import section


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--only", action="append", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    add("--quick", action="store_true", help="small sizes: does everything run?")
    add("--repetitions", type=int, help=f"default {Settings.repetitions}; with --quick 2")
    add("--json", type=Path, metavar="FILE", help="also write all samples to a new file")
    options = parser.parse_args(arguments)
    if options.repetitions is None:
        options.repetitions = 2 if options.quick else Settings.repetitions
    if options.repetitions < 1:
        parser.error(f"--repetitions is {options.repetitions}; give a positive integer")
    if options.json and options.json.exists():
        parser.error(f"{options.json} exists; name a file that does not")
    return options


def measure(names, settings):
    """Return the rows of the benchmarks that ran through, and the names of those that failed."""
    rows, failed = [], []
    for name in names:
        start = time.monotonic()
        try:
            rows += list(load(name).rows(settings))
        except Exception:  # one that fails does not cost the minutes of the rest
            traceback.print_exc()
            failed.append(name)
        verdict = " (failed)" if name in failed else ""
        print(f"{name}: {time.monotonic() - start:.0f} s{verdict}", file=sys.stderr, flush=True)
    return rows, failed


def main(arguments=None):
    """Run the command; return the exit status, 1 if a benchmark failed."""
    options = parse(arguments)
    found = provenance()  # before the run: what it makes is no modification
    settings = Settings(options.repetitions, options.quick)
    rows, failed = measure(options.only or BENCHMARKS, settings)
    print(f"\n{describe(found)}; {settings.repetitions} repetitions")
    if options.quick:
        print("--quick: the sizes are too small for the numbers to mean anything")
    for name in dict.fromkeys(row.benchmark for row in rows):
        print("", section(name, [row for row in rows if row.benchmark == name]), sep="\n")
    if options.json:
        found |= {"quick": options.quick, "rows": [row.to_dict() for row in rows]}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

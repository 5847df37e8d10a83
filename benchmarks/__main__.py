"""Measure, against what a reader would use instead: ``python -m benchmarks``.

Prints one table. ``--record`` also keeps the run in ``records/`` and draws the page that shows it.
"""

import argparse
import importlib
import json
import sys
import time
import traceback
from pathlib import Path

from benchmarks import page, records, report
from benchmarks.measure import Settings
from benchmarks.provenance import describe

BENCHMARKS = (
    "machine",
    "loader",
    "lenet",
    "parallel",
    "allreduce",
    "ddp",
    "resnet",
    "sim",
    "book",
)


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--only", action="append", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    add("--quick", action="store_true", help="small sizes: does everything run?")
    add("--repetitions", type=int, help=f"default {Settings.repetitions}; with --quick 2")
    add("--out", type=Path, metavar="FILE", help="write the run as JSON")
    add("--record", action="store_true", help="keep the run in records/")
    add("--check", action="store_true", help="compare with this hardware's last record")
    add("--tests", action="store_true", help="book: measure make test, too (minutes)")
    options = parser.parse_args(arguments)
    if options.quick and (options.record or options.check):
        parser.error("--quick measures nothing that could be recorded or compared")
    if options.repetitions is not None and options.repetitions < 1:
        parser.error(f"--repetitions is {options.repetitions}; give at least 1")
    return options


def measure(names, settings):
    """Run benchmarks, each in its turn.

    Returns
    -------
    rows : list of Row
        Of those that ran through.
    failed : list of str
        Names of the others; one that fails does not cost the minutes of the rest.
    """
    rows, failed = [], []
    for name in names:
        start = time.monotonic()
        try:
            rows += importlib.import_module(f"benchmarks.bench_{name}").rows(settings)
        except Exception:
            traceback.print_exc()
            failed.append(name)
        verdict = " (failed)" if name in failed else ""
        print(f"{name}: {time.monotonic() - start:.0f} s{verdict}", file=sys.stderr, flush=True)
    return rows, failed


def compare(record):
    """Print what became slower than in the last record of the hardware; return how much did."""
    others = {
        path: old
        for path, old in records.load_all().items()
        if records.same_hardware(old) == records.same_hardware(record)
    }
    if not others:
        print(f"bench-check: no record of {records.hardware_name(record)}; make one with --record")
        return 0
    path, old = others.popitem()
    found = report.slower(record, old)
    print(f"bench-check: against {path.name}: {len(found)} slower")
    print("\n".join(f"  {line}" for line in found))
    return len(found)


def main(arguments=None):
    """Run the command; return the exit status, 1 if something became slower."""
    options = parse(arguments)
    repetitions = options.repetitions or (2 if options.quick else Settings.repetitions)
    settings = Settings(repetitions, options.quick, options.tests)
    provenance = describe()  # before the run: what it makes is not to count as a modification
    rows, failed = measure(options.only or BENCHMARKS, settings)
    record = records.from_rows(rows, provenance, settings)
    print(f"\n{records.hardware_name(record)}; {page.describe(record)}")
    if options.quick:
        print("--quick: the sizes are too small for the numbers to mean anything")
    print()
    print(report.table(record["rows"]))
    if options.out:
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    slower = compare(record) if options.check else 0
    if failed:
        print(f"\nfailed: {', '.join(failed)}; nothing is recorded")
    elif options.record:
        print(f"\nrecord: {records.save(record)}")
        page.write()
    return 1 if failed or slower else 0


if __name__ == "__main__":
    sys.exit(main())

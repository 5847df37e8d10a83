"""Measure, against what a reader would use instead: ``python -m benchmarks``.

Prints tables. ``--record`` also keeps the run in ``records/`` and writes the page that shows it.
"""

import argparse
import sys
import time
import traceback

from benchmarks import page, records
from benchmarks.cases import BENCHMARKS, load
from benchmarks.measure import Settings


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--only", action="append", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    add("--quick", action="store_true", help="small sizes: does everything run?")
    add("--repetitions", type=int, help=f"default {Settings.repetitions}; with --quick 2")
    add("--record", action="store_true", help="keep the run in records/")
    add("--check", action="store_true", help="compare with this hardware's last record")
    options = parser.parse_args(arguments)
    if options.quick and (options.record or options.check):
        parser.error("--quick measures nothing that could be kept or compared")
    if options.repetitions is None:
        options.repetitions = 2 if options.quick else Settings.repetitions
    least = Settings.repetitions if options.record else 1
    if options.repetitions < least:
        parser.error(f"--repetitions is {options.repetitions}; give at least {least}")
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


def compare(record):
    """Print what became slower than in the last record of the hardware; return how much did."""
    same = [other for other in records.read_all() if other.machine == record.machine]
    if not same:
        print(f"bench-check: no record of {record.name}; make one with --record")
        return 0
    slower = records.slower(record, same[-1])
    print(f"bench-check: against {same[-1].file_name}: {len(slower)} slower")
    print("\n".join(f"  {line}" for line in slower))
    return len(slower)


def main(arguments=None):
    """Run the command; return the exit status, 1 if something became slower."""
    options = parse(arguments)
    provenance = records.provenance()  # before the run: what it makes is no modification
    settings = Settings(options.repetitions, options.quick)
    rows, failed = measure(options.only or BENCHMARKS, settings)
    if failed:
        print(f"\nfailed: {', '.join(failed)}; nothing is recorded")
    if not rows:
        return 1
    record = records.Record(**provenance, rows=rows)
    print(f"\n# {record.name}\n\n{page.describe(record)}")
    if options.quick:
        print("--quick: the sizes are too small for the numbers to mean anything")
    for name in dict.fromkeys(row.benchmark for row in rows):
        blocks = page.section(name, [row for row in rows if row.benchmark == name], write=str)
        print("", *blocks, sep="\n\n", flush=True)
    slower = compare(record) if options.check else 0
    if options.record and not failed:
        print(f"\nrecord: {records.save(record)}")
        page.write()
    return 1 if failed or slower else 0


if __name__ == "__main__":
    sys.exit(main())

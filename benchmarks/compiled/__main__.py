"""Run all pairs and write the record, or run those whose program and options hold a text."""

import argparse

from benchmarks.compiled import record, runs
from benchmarks.compiled.pairs import read
from benchmarks.compiled.table import summary, table


def main(arguments=None):
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compiled", description=__doc__)
    parser.add_argument("text", nargs="?", default="", help="only pairs with it; writes no record")
    options = parser.parse_args(arguments)
    rows = []
    for pair in read():
        if options.text in f"{pair.program} {pair.options}":
            rows.append(record.row_of(pair, runs.run(pair), runs.with_host(pair)))
            row = rows[-1]
            print(f"{row.error:+7.1%}  {row.ratio:.2f} ({row.published_ratio:.2f})  {pair.what}")
    if not options.text:
        record.write(rows)
    print(table(rows), summary(rows), sep="\n")


if __name__ == "__main__":
    main()

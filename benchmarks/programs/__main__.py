"""Print what became of other people's trainers; with a folder of their sources, run these again.

A program's source is in the folder of its name in `programs.csv`. Their packages have to be
installed for the Python that runs this.
"""

import argparse
from pathlib import Path

from benchmarks.programs import runs
from benchmarks.programs.programs import read
from benchmarks.programs.table import table


def main(arguments=None):
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.programs", description=__doc__)
    parser.add_argument("sources", nargs="?", type=Path, help="where the sources are")
    parser.add_argument("names", nargs="*", help="programs; default: all whose source is there")
    options = parser.parse_args(arguments)
    for program in read() if options.sources else ():
        wanted = not options.names or program.name in options.names
        if wanted and (options.sources / program.name).is_dir():
            row = runs.run(program, options.sources)
            print(f"{row['seconds']:4} s  {program.name}: {row['result']}", flush=True)
            keep(row)
    print(table(runs.read()))


def keep(row):
    """Put a run into the record, in place of an earlier one."""
    rows = {old["name"]: old for old in runs.read()} | {row["name"]: row}
    runs.write([rows[program.name] for program in read() if program.name in rows])


if __name__ == "__main__":
    main()

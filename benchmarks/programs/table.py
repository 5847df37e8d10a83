"""The table of all programs and their latest runs."""

from benchmarks.programs.programs import read
from simgpu.units import quantity, size

HEADER = "| program | version | result | step | peak memory | took | date |\n" + "|---" * 7 + "|"


def table(rows) -> str:
    """Return the table of the programs that have been run."""
    programs = {program.name: program for program in read()}
    return "\n".join([HEADER, *(_line(programs[row["name"]], row) for row in rows)])


def _line(program, row):
    ran = row["step_seconds"] is not None
    step = quantity(row["step_seconds"], "s") if ran else ""
    peak = size(row["peak_bytes"]) if ran else ""
    name = f"{program.source}: {program.name}"
    cells = name, row["version"], row["result"], step, peak, f"{row['seconds']} s", row["date"]
    return f"| {' | '.join(cells)} |"

"""The records of a job: rank 0 writes them, `launch` reads them."""

import json
import os
from pathlib import Path

# Names the file for the records; standard output is everybody's: each rank may print there, and
# so does NCCL, in the middle of a line if it comes to that.
FILE_VARIABLE = "D2LMINI_RECORDS"


def write_record(record):
    """Append a record to the file that `launch` named; without one, print it as a line of JSON."""
    line = json.dumps(record)
    path = os.environ.get(FILE_VARIABLE)
    if path is None:
        print(line, flush=True)
        return
    with open(path, "ab", buffering=0) as file:
        # The first newline ends what a process that was killed while it wrote may have left.
        file.write(f"\n{line}\n".encode())


def read_records(path):
    """Return the records of a file as a list of dicts; none if nobody wrote one."""
    path = Path(path)
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [record for record in map(_parse, lines) if record is not None]


def _parse(line):
    try:
        return json.loads(line)
    except json.JSONDecodeError:  # blank, or cut off by the death of the writer
        return None

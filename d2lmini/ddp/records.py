"""The records of a job: rank 0 writes them, `launch` reads them."""

import json
import math
import os
from pathlib import Path

# Names the file for the records; standard output is everybody's: each rank may print there, and
# so does NCCL, in the middle of a line if it comes to that.
FILE_VARIABLE = "D2LMINI_RECORDS"


def write_record(record):
    """Append a record to the file that `launch` named; without one, print it as a line of JSON.

    JSON has finite numbers only. What is not finite is written as text, "NaN", "Infinity" or
    "-Infinity", which `float` turns back into a number.
    """
    line = json.dumps(_finite(record), allow_nan=False)
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


def _finite(value):
    """Return the value with text in place of the numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    return value


def _parse(line):
    try:
        return json.loads(line)
    except json.JSONDecodeError:  # blank, or cut off by the death of the writer
        return None

"""The records of a job: rank 0 writes them, `launch` reads them."""

import json
import math
import os
from pathlib import Path

# The variable with the path for the records. Standard output is shared: all ranks may print there,
# and so does NCCL, possibly in the middle of a line.
FILE_VARIABLE = "D2LMINI_RECORDS"


def write_record(record):
    """Append a record to the file of `launch`; without one, print it as a line of JSON.

    JSON has finite numbers only. Others are written as text, "NaN", "Infinity" or "-Infinity",
    which `float` converts back to a number.
    """
    line = json.dumps(_finite(record), allow_nan=False)
    path = os.environ.get(FILE_VARIABLE)
    if path is None:
        print(line, flush=True)
        return
    with open(path, "ab", buffering=0) as file:
        # The first newline ends a partial line from a process that was killed while writing.
        file.write(f"\n{line}\n".encode())


def read_records(path):
    """Return the records in a file as a list of dicts, empty if there is no file."""
    path = Path(path)
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [record for record in map(_parse, lines) if record is not None]


def _finite(value):
    """Return the value with text in place of numbers that JSON cannot represent."""
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
    except json.JSONDecodeError:  # blank, or incomplete because its writer died
        return None

"""Records: runs kept as JSON in ``records/``, each with its provenance; old ones are never changed.

``python -m benchmarks.records --check`` validates them all, ``--add FILE`` keeps the run of another
machine, which ``python -m benchmarks --out FILE`` wrote there.
"""

import argparse
import json
import math
import re
import statistics
import sys
from datetime import datetime
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "records"
FORMAT = "d2lmini benchmarks 1"
CALIBRATION_FORMAT = "d2lmini calibration 1"
REPETITIONS = 5  # the least that a record needs

_CALIBRATION_SCHEMA = {
    "type": "object",
    "required": ["format", "gpu", "link", "provenance", "measurements"],
    "properties": {
        "format": {"const": CALIBRATION_FORMAT},
        "provenance": {
            "type": "object",
            "required": ["hardware", "date", "torch", "python", "repeats"],
            "properties": {"repeats": {"type": "integer", "minimum": 3}},
        },
        "measurements": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "required": ["what", "seconds", "median", "spread"]},
        },
    },
}


def from_rows(rows, provenance, settings):
    """Make a record of the rows of a run.

    Parameters
    ----------
    rows : list of benchmarks.measure.Row
        What was measured.
    provenance : dict
        From `benchmarks.provenance.describe`.
    settings : benchmarks.measure.Settings
        How.

    Returns
    -------
    dict
        Ready for JSON.
    """
    how = {"quick": settings.quick, "repetitions": settings.repetitions}
    return {"format": FORMAT, **provenance, **how, "rows": [_row(row) for row in rows]}


def _row(row):
    peer = None if row.peer is None else _side(row.peer)
    names = ("benchmark", "case", "unit", "ratio", "goal", "higher_is_better", "exact")
    names += ("note", "plot", "x")
    return {**{name: getattr(row, name) for name in names}, "ours": _side(row.ours), "peer": peer}


def _side(side):
    return {
        "label": side.label,
        "samples": list(side.samples),
        "median": side.median,
        "low": side.low,
        "high": side.high,
    }


def same_hardware(record):
    """Return what must agree for two records to be comparable."""
    hardware = record["hardware"]
    gpus = tuple(gpu["name"] for gpu in hardware["gpus"])
    return hardware["cpu"], hardware["cores"], hardware["threads"], gpus


def hardware_name(record):
    """Name the hardware in words: ``"AMD EPYC, 2 cores"``."""
    hardware = record["hardware"]
    words = f"{hardware['cpu']}, {_count(hardware['cores'], 'core')}"
    if hardware["threads"] != hardware["cores"]:
        words += f", {_count(hardware['threads'], 'thread')}"
    gpus = [gpu["name"] for gpu in hardware["gpus"]]
    counted = [f"{gpus.count(name)} x {name}" for name in dict.fromkeys(gpus)]
    return ", ".join([*counted, words])


def _count(number, noun):
    return f"{number} {noun}{'s' * (number != 1)}"


def file_name(record):
    """Return the name of a record's file: date and hardware."""
    when = datetime.fromisoformat(record["date"]).strftime("%Y-%m-%d-%H%M")
    slug = re.sub(r"[^a-z0-9]+", "-", hardware_name(record).lower()).strip("-")
    return f"{when}-{slug}.json"


def save(record, folder=FOLDER):
    """Keep a record; return its path.

    Raises
    ------
    ValueError
        If it is not valid, or was made with ``--quick``.
    FileExistsError
        If there is one of this minute and hardware: records are not overwritten.
    """
    path = Path(folder) / file_name(record)
    problems = check(record, path.name)
    if problems:
        raise ValueError("not a valid record:\n" + "\n".join(problems))
    with path.open("x", encoding="utf-8") as file:
        file.write(json.dumps(record, indent=1) + "\n")
    return path


def load_all(folder=FOLDER):
    """Return all benchmark records as ``{path: record}``, oldest first."""
    found = {path: json.loads(path.read_text(encoding="utf-8")) for path in _paths(folder)}
    found = {path: record for path, record in found.items() if record.get("format") == FORMAT}
    return dict(sorted(found.items(), key=lambda pair: pair[1]["date"]))


def _paths(folder):
    return sorted(path for path in Path(folder).glob("*.json") if path.name != "schema.json")


def check(record, name):
    """Say what is wrong with a record.

    Parameters
    ----------
    record : dict
        As read from JSON.
    name : str
        Name of its file.

    Returns
    -------
    list of str
        One line per problem; empty for a valid record.
    """
    import jsonschema  # the machine that measures may do without it

    is_calibration = name.startswith("calibration-")
    schema = _CALIBRATION_SCHEMA if is_calibration else _schema()
    validator = jsonschema.Draft202012Validator(schema)
    problems = [
        f"{name}: {error.json_path}: {error.message}" for error in validator.iter_errors(record)
    ]
    if problems or is_calibration:
        return problems
    return [f"{name}: {problem}" for problem in _contradictions(record, name)]


def _schema():
    return json.loads((FOLDER / "schema.json").read_text(encoding="utf-8"))


def _contradictions(record, name):
    """Yield what a schema cannot say."""
    try:
        if datetime.fromisoformat(record["date"]).tzinfo is None:
            yield "date: no time zone; write UTC as +00:00"
        elif name != file_name(record):
            yield f"the file should be called {file_name(record)}"
    except ValueError:
        yield f"date: {record['date']!r} is not a date"
    if record["quick"]:
        yield "quick: a quick run measures nothing; run without --quick"
    if record["repetitions"] < REPETITIONS:
        yield f"repetitions: {record['repetitions']}, at least {REPETITIONS} are needed"
    seen = set()
    for row in record["rows"]:
        key = row_key(row)
        where = " / ".join(key)
        if key in seen:
            yield f"{where}: is there twice"
        seen.add(key)
        yield from (f"{where}: {problem}" for problem in _row_contradictions(row))


def row_key(row):
    """Return what identifies a row within a run, and over runs."""
    return row["benchmark"], row["case"], row["ours"]["label"]


def _row_contradictions(row):
    ours, peer = row["ours"], row["peer"]
    if not row["exact"] and len(ours["samples"]) < REPETITIONS:
        yield f"{len(ours['samples'])} samples, at least {REPETITIONS} are needed"
    for side in filter(None, (ours, peer)):
        summary = {"median": statistics.median, "low": min, "high": max}
        for field, function in summary.items():
            if not math.isclose(side[field], function(side["samples"]), rel_tol=1e-9):
                yield f"{side['label']}: {field} {side[field]} does not follow from the samples"
    if (peer is None) != (row["ratio"] is None):
        yield "ratio and peer go together"
    elif peer is not None:
        yield from _ratio_contradictions(row)
    if row["goal"] is not None and peer is None:
        yield "a goal is a ratio, and needs a peer"


def _ratio_contradictions(row):
    ours, peer = row["ours"]["samples"], row["peer"]["samples"]
    if len(ours) != len(peer):
        yield f"{len(ours)} samples against {len(peer)}; both are measured in the same rounds"
    elif 0 in ours or 0 in peer:
        yield "a sample is 0"
    else:
        pairs = list(zip(ours, peer, strict=True))
        ratios = [a / b if row["higher_is_better"] else b / a for a, b in pairs]
        if not math.isclose(row["ratio"], statistics.median(ratios), rel_tol=1e-9):
            yield f"ratio {row['ratio']} does not follow from the samples"


def check_folder(folder=FOLDER):
    """Say what is wrong with the records of a folder; an empty list if nothing is."""
    problems = []
    for path in _paths(folder):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            problems.append(f"{path.name}: not JSON: {error}")
            continue
        problems += check(record, path.name)
    return problems


def main(arguments=None):
    """Validate all records of a folder, or keep a run that was made elsewhere."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.records", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="validate all records")
    what.add_argument("--add", type=Path, metavar="FILE", help="keep what --out wrote elsewhere")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    if options.add:
        print(save(json.loads(options.add.read_text(encoding="utf-8")), options.folder))
        print("now draw the page: python -m benchmarks.page")
        return 0
    problems = check_folder(options.folder)
    print("\n".join(problems) or f"records: {len(_paths(options.folder))} valid")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

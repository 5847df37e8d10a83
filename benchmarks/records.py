"""Records: runs kept as JSON in ``records/``, each with its provenance; old ones are never changed.

A file holds samples and facts. What follows from them (medians, ranges, ratios) is derived
by `benchmarks.measure`.

``python -m benchmarks.records --check`` validates all files, ``--add FILE`` keeps the run of
another machine, which ``python -m benchmarks --out FILE`` wrote there.
"""

import argparse
import json
import re
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from benchmarks.measure import Row
from d2lmini import sim

FOLDER = Path(__file__).parents[1] / "records"
FORMAT, FORMAT_1 = "d2lmini benchmarks 2", "d2lmini benchmarks 1"
REPETITIONS = 5  # the least that a record needs


@dataclass(frozen=True)
class Record:
    """A run: how it came about (see `benchmarks.provenance`), and its rows."""

    date: str
    commit: str
    modified: bool
    load: float | None
    hardware: dict
    versions: dict
    rows: list

    @classmethod
    def from_dict(cls, data):
        """Make a record of what JSON holds, in any format that there has been."""
        if isinstance(data, dict) and data.get("format") == FORMAT_1:
            data = _from_format_1(data)
        _validate(data)
        facts = {name: value for name, value in data.items() if name not in ("format", "rows")}
        record = cls(**facts, rows=[Row.from_dict(row) for row in data["rows"]])
        problems = list(record._contradictions())
        if problems:
            raise ValueError("\n".join(problems))
        return record

    def to_dict(self):
        """Return what JSON can hold."""
        rows = [row.to_dict() for row in self.rows]
        return {"format": FORMAT, **vars(self), "rows": rows}

    def _contradictions(self):
        """Yield what a schema cannot say."""
        try:
            datetime.fromisoformat(self.date)
        except ValueError:
            yield f"date: {self.date!r} is not a date"
        keys = [row.key for row in self.rows]
        for row in self.rows:
            where, count = " / ".join(row.key), len(row.ours.samples)
            if keys.count(row.key) > 1:
                yield f"{where}: is there twice"
            if row.unit != "B" and count < REPETITIONS:  # bytes are counted
                yield f"{where}: {count} samples, at least {REPETITIONS} are needed"

    @property
    def repetitions(self):
        """How often was measured."""
        return max(len(row.ours.samples) for row in self.rows)

    @property
    def machine(self):
        """What must agree for two records to be comparable."""
        gpus = tuple(gpu["name"] for gpu in self.hardware["gpus"])
        return self.hardware["cpu"], self.hardware["cores"], self.hardware["threads"], gpus

    @property
    def name(self):
        """The hardware in words: ``"AMD EPYC, 2 cores"``."""
        cpu, cores, threads, gpus = self.machine
        words = [f"{gpus.count(gpu)} x {gpu}" for gpu in dict.fromkeys(gpus)]
        words += [cpu, f"{cores} core{'s' * (cores != 1)}"]
        words += [f"{threads} thread{'s' * (threads != 1)}"] * (threads != cores)
        return ", ".join(words)

    @property
    def file_name(self):
        """The name of the record's file: date and hardware."""
        when = datetime.fromisoformat(self.date).strftime("%Y-%m-%d-%H%M")
        slug = re.sub(r"[^a-z0-9]+", "-", self.name.lower())[:100].strip("-")
        return f"{when}-{slug}.json"


def _from_format_1(data):
    """Take the samples and facts of a record of format 1, which also stored what follows from them.

    It gave rates in giga, and a limit as a peer with the same value in all rounds. The loader's
    plain copy was not measured in the loader's rounds: it is no peer.
    """
    try:
        if data["quick"]:
            raise ValueError("a quick run measures nothing; run without --quick")
        facts = ("date", "commit", "modified", "load", "hardware", "versions")
        rows = [_row_from_format_1(row) for row in data["rows"]]
        return {"format": FORMAT, "rows": rows} | {n: data[n] for n in facts if n in data}
    except (AttributeError, KeyError, OverflowError, TypeError) as error:
        raise ValueError(f"a field of format 1 is missing or wrong: {error!r}") from error


def _row_from_format_1(data):
    names = ("benchmark", "case", "unit", "goal", "note", "plot", "x")
    row = {name: data[name] for name in names if data.get(name) not in (None, "")}
    giga = re.fullmatch("G(.*/s)", row["unit"])
    row["unit"] = giga[1] if giga else row["unit"]
    for name in ("ours", "peer"):
        if data[name]:
            samples = [value * 1e9 if giga else value for value in data[name]["samples"]]
            row[name] = {"label": data[name]["label"], "samples": samples}
    if "peer" in row and len(set(row["peer"]["samples"])) == 1 < len(row["peer"]["samples"]):
        row["limit"] = row.pop("peer")["samples"][0]
        row.pop("goal", None)
    if (row["benchmark"], row["case"]) == ("loader", "bytes moved, against a plain copy"):
        row["case"] = "bytes moved"
        row.pop("peer", None)
    return row


def _validate(data):
    import jsonschema  # the machine that measures may do without it

    schema = json.loads((FOLDER / "schema.json").read_text(encoding="utf-8"))
    found = jsonschema.Draft202012Validator(schema).iter_errors(data)
    problems = [_shorten(f"{error.json_path}: {error.message}") for error in found]
    if problems:
        raise ValueError("\n".join(problems))


def _shorten(text):
    return text if len(text) < 300 else f"{text[:140]} ... {text[-140:]}"


def _load(path):
    def refuse(constant):
        raise ValueError(f"{constant} is no number")

    try:
        return json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error


def read(path):
    """Return the record in a file; if it is none, raise a `ValueError` with a line per problem."""
    record = Record.from_dict(_load(path))
    if Path(path).name != record.file_name:
        raise ValueError(f"the file should be called {record.file_name}")
    return record


def read_all(folder=FOLDER):
    """Read a folder: ``{path: Record}`` of runs, oldest first, and ``{path: str}`` of problems."""
    paths = [path for path in sorted(Path(folder).glob("*.json")) if path.name != "schema.json"]
    tried = {path: _try(path) for path in paths}
    found = {path: record for path, (record, _) in tried.items() if record}
    problems = {path: problem for path, (_, problem) in tried.items() if problem}
    return dict(sorted(found.items(), key=lambda pair: pair[1].date)), problems


def _try(path):
    """Return the record in a file, None for a calibration, and what is wrong with it."""
    try:
        if not path.name.startswith("calibration-"):
            return read(path), None
        sim.from_calibration(path)
        if not {"provenance", "measurements"} <= _load(path).keys():
            raise ValueError("a calibration keeps its provenance and measurements")
        return None, None
    except ValueError as error:
        return None, str(error)


def save(record, folder=FOLDER):
    """Keep a valid record, never in place of another; return its path."""
    text = to_json(record)
    path = Path(folder) / Record.from_dict(json.loads(text)).file_name
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
    return path


def to_json(record):
    """Return the text of a record's file."""
    return json.dumps(record.to_dict(), indent=1) + "\n"


def main(arguments=None):
    """Validate all records of a folder, or keep a run that was made elsewhere."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.records", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="validate all records")
    what.add_argument("--add", type=Path, metavar="FILE", help="keep what --out wrote elsewhere")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    if options.add:
        print(save(Record.from_dict(_load(options.add)), options.folder))
        print("now draw the page: python -m benchmarks.page")
        return 0
    found, problems = read_all(options.folder)
    for path, text in problems.items():
        print("\n".join(f"{path.name}: {line}" for line in text.splitlines()))
    print(f"records: {len(found)} valid")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

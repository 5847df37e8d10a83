"""The record of what was predicted of published tables; the page and its tests read it.

``python -m benchmarks.published.page FILE.csv ...`` predicts tables and writes it to `PATH`. A row
of a table is a list there: its columns, then what became of it.
"""

import json
from dataclasses import astuple, fields
from pathlib import Path

from benchmarks.published.shared.rows import Prediction
from benchmarks.published.study import assumed
from benchmarks.published.tables import Table
from simgpu.bands.kinds import Kind

PATH = Path(__file__).parents[2] / "records" / "published" / "predictions.json"
FORMAT = "simgpu predictions 1"
FIELDS = [field.name for field in fields(Prediction)]


def write(tables, study, path=PATH):
    """Write tables and a study (see `assumed.study`), a row of a table on each line."""
    launches, assumptions = study
    parts = {
        "format": FORMAT,
        "launches": {c.words: values for c, values in launches.items()},
        "assumptions": {c.words: values for c, values in assumptions.items()},
        "fields": FIELDS,
    }
    lines = [f"{json.dumps(name)}: {_line(value)}" for name, value in parts.items()]
    found = ",\n".join(map(_table, tables))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{" + ",\n".join(lines) + f',\n"tables": [\n{found}\n]}}\n', encoding="utf-8")


def renewed(old, new):
    """Return the tables `old` with those exchanged that are in `new`, and the rest of it behind."""
    left = {_key(table): table for table in new}
    kept = [left.pop(_key(table), table) for table in old]
    return [*kept, *left.values()]


def _key(table):
    return table.family, tuple(table.rows[0] if table.rows else ())


def read(path=PATH):
    """Return the tables and the study that `write` was given.

    Raises
    ------
    ValueError
        If the file has another format.
    """
    found = json.loads(path.read_text(encoding="utf-8"))
    if found.get("format") != FORMAT:
        raise ValueError(
            f"{path} is of the format {found.get('format')!r}, not {FORMAT!r}; write it anew: "
            "python -m benchmarks.published.page FILE.csv ..."
        )
    by_words = {c.words: c for c in (*assumed.CONCLUSIONS, *assumed.BETWEEN)}
    study = tuple(
        {by_words[words]: values for words, values in found[name].items() if words in by_words}
        for name in ("launches", "assumptions")
    )
    return [_read_table(one, found["fields"]) for one in found["tables"]], study


def _table(table):
    columns = list(table.rows[0]) if table.rows else []
    rows = [
        _line([*row.values(), *astuple(p)])
        for row, p in zip(table.rows, table.predictions, strict=True)
    ]
    about = {"family": table.family, "columns": columns, "refused": table.refused}
    body = ",\n".join(rows)
    return f'{_line(about)[:-1]}, "rows": [\n{body}\n]}}'


def _read_table(found, names):
    columns = found["columns"]
    rows = [dict(zip(columns, cells, strict=False)) for cells in found["rows"]]
    predictions = []
    for cells in found["rows"]:
        values = dict(zip(names, cells[len(columns):], strict=True))  # fmt: skip
        pairs = {name: tuple(values[name]) for name in ("memory", "fits") if values.get(name)}
        kind = {"kind": Kind(*values["kind"])} if values.get("kind") else {}
        predictions.append(Prediction(**(values | pairs | kind)))
    return Table(found["family"], rows, predictions, [tuple(one) for one in found["refused"]])


def _line(value):
    return json.dumps(value, ensure_ascii=False)

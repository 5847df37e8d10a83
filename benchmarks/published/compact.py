"""Published steps in short, for ``simgpu compare``: ``python -m benchmarks.published.compact``.

The record ``records/published/predictions.json`` is not in the package; this writes what the
command needs of it, for the families in `READERS`.
"""

import csv
import io
import json
from pathlib import Path

from benchmarks.published.families.folding import MODELS
from simgpu.compare.published import COLUMNS, FILE

RECORD = Path(__file__).parents[2] / "records/published/predictions.json"


def lines(record):
    """Return the rows: values for `COLUMNS`, as texts."""
    found = []
    for table in record["tables"]:
        read = READERS.get(table["family"])
        columns = [*table["columns"], *record["fields"]]
        for values in table["rows"] if read else ():
            row = dict(zip(columns, values, strict=True))
            parameters, experts, gpus, seq, batch, mfu = read(row)
            rate = float(batch) * float(seq) / (float(gpus) * row["measured"])
            gpu = row["preset"].split("/")[0]
            short = [f"{float(parameters):.3g}", experts, gpu, gpus, seq, f"{rate:.4g}", mfu]
            found.append([*map(str, short), row["system"], row["what"]])
    return found


def _llmfoundry(row):
    return (float(row["NumParams"]) / 1e9, 0, row["# GPUs"], row["SeqLen (T)"],
            row["GlobalBatchSize"], row["MFU"])  # fmt: skip


def _vtrain(row):
    return (row["Parameters (billion)"], 0, row["# GPUs"], row["sequence length"],
            row["global batch"], "")  # fmt: skip


def _folding(row):
    return (
        MODELS[row["model"]].parameters / 1e9,
        1,
        row["gpus"],
        row["seq"],
        row["global_batch"],
        row["MFU_pct"],
    )


READERS = {
    "llmfoundry": _llmfoundry,
    "vtrain": _vtrain,
    "moe folding": _folding,
}


def text(record):
    """Return the file's text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([COLUMNS, *lines(record)])
    return out.getvalue()


def read_record():
    """Return the record, of the tables with whole models only."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    known = lambda t: t["family"] != "vtrain" or "Parameters (billion)" in t["columns"]  # noqa: E731
    return record | {"tables": [table for table in record["tables"] if known(table)]}


if __name__ == "__main__":
    FILE.write_text(text(read_record()), encoding="utf-8")

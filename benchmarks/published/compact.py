"""Published steps in short, for ``simgpu compare``: ``python -m benchmarks.published.compact``.

The record ``records/published/predictions.json`` is not in the package; this writes what the
command needs of it, for the families in `READERS`, and of the gallery.
"""

import csv
import io
import json
import re
from pathlib import Path

from benchmarks.gallery import record as gallery
from benchmarks.published.families import nanotron, torchtitan
from benchmarks.published.families.experts import Folding
from benchmarks.published.families.megatron import A100, H100
from benchmarks.published.tables import FAMILIES
from simgpu.compare.published import COLUMNS, FILE

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "records/published/predictions.json"
SIZE = re.compile(r"(\d+(?:\.\d+)?)([BM])\b")
SEQ = {"megatron 2021": A100.SEQ, "megatron 2024": H100.SEQ, "nanotron": nanotron.SEQ}


def lines(record):
    """Return the rows: values for `COLUMNS`, as texts."""
    found, links = [], references()
    for table in record["tables"]:
        family = table["family"]
        read = READERS.get(family)
        columns = [*table["columns"], *record["fields"]]
        for values in table["rows"] if read else ():
            row = dict(zip(columns, values, strict=True)) | {"family": family}
            if row["measured"] is None or row["system"] == "llm.c":  # which is no PyTorch
                continue
            billions, seq, batch, mfu = read(row)
            gpus, gpu = row.get("# GPUs", row.get("gpus", 8)), row["preset"].split("/")[0]
            rate = row.get("tokens_per_s_per_gpu") or (
                f"{float(batch) * float(seq) / (float(gpus) * row['measured']):.4g}"
            )
            experts = int(family == "moe folding")
            short = [f"{float(billions):.3g}", experts, gpu.partition("-")[0], gpus, seq, rate, mfu]
            found.append([*map(str, short), row["system"], row["what"], links[family]])
    return found + _gallery()


def _gallery():
    """Return the rows of the gallery; of a series the last comes first, which has all changes."""
    links, found = _links(), []
    for series in gallery.by_program(gallery.read()):
        name = series[0].run.what.partition(",")[0]
        for run in (row.run for row in reversed(series)):
            rate = f"{run.tokens / run.seconds / run.gpus:.4g}"
            sizes = [f"{run.billions:.3g}", "0", run.gpu, str(run.gpus), str(run.seq), rate, ""]
            what = run.what if run.what.startswith(name) else f"{name}, {run.what}"
            source = run.source.split()[0].partition("#")[0]
            found.append([*sizes, source, what, links[run.key]])
    return found


def references() -> dict:
    """Return where the rows of each family can be read."""
    links, found = _links(), {}
    for family in READERS:
        for key in re.findall(r"\{cite\}`([^`]+)`", FAMILIES[family].TITLE)[:1]:
            found[family] = links[key]
    return found


def _links():
    """Return the address of each of the book's references that has one."""
    found = {}
    for entry in (ROOT / "references.bib").read_text(encoding="utf-8").split("\n@"):
        url = re.search(r"\burl\s*=\s*\{([^}]+)", entry)
        doi = re.search(r"\bdoi\s*=\s*\{([^}]+)", entry)
        if url or doi:
            key = entry.partition("{")[2].partition(",")[0]
            found[key] = url[1] if url else f"https://doi.org/{doi[1]}"
    return found


def _billions(row):
    number, unit = SIZE.search(row["model"]).groups()
    return float(number) / (1 if unit == "B" else 1000)


def _llmfoundry(row):
    return (
        float(row["NumParams"]) / 1e9, row["SeqLen (T)"], row["GlobalBatchSize"], row["MFU"],
    )  # fmt: skip


def _vtrain(row):
    return row["Parameters (billion)"], row["sequence length"], row["global batch"], ""


def _folding(row):
    return (
        Folding.MODELS[row["model"]].parameters / 1e9,
        row["seq"],
        row["global_batch"],
        row["MFU_pct"],
    )


def _megatron(row):
    return row["params_B"], SEQ[row["family"]], row["global_batch"], row.get("MFU_pct", "")


def _nanotron(row):
    batch = int(row["DP"]) * int(row["grad_accum"]) * int(row["micro_batch"])
    return row["params_B"], SEQ[row["family"]], batch, row["MFU_pct"]


def _korthikanti(row):
    return _billions(row), row["seq"], row["global_batch"], ""


def _gpt2(row):  # all on nodes of eight
    return _billions(row), row["seq"], int(row["tokens_per_step"]) / int(row["seq"]), ""


def _torchtitan(row):
    return _billions(row), row["seq"].partition(" ")[0] or torchtitan.SEQ, None, ""


def _internevo(row):
    return 7, row["seq"], None, ""


READERS = {
    "llmfoundry": _llmfoundry, "vtrain": _vtrain, "moe folding": _folding,
    "torchtitan": _torchtitan, "megatron 2021": _megatron, "megatron 2024": _megatron,
    "korthikanti times": _korthikanti, "nanotron": _nanotron, "internevo": _internevo,
    "gpt2": _gpt2,
}  # fmt: skip


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

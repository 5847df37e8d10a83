"""Reading a table of published measurements, and predicting its rows."""

import csv
import itertools
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.published.families import (
    collectives,
    experts,
    gpt2,
    internevo,
    korthikanti,
    large_models,
    llmfoundry,
    megatron,
    nanotron,
    resnet50,
    torchgpipe,
    torchtitan,
    vtrain,
)
from benchmarks.published.shared.rows import UnpredictableError
from simgpu.plan.step.job import PlanError

FAMILIES = {  # in the order of the page
    "collectives": collectives,
    "more messages": collectives.More,
    "vtrain": vtrain,
    "llmfoundry": llmfoundry,
    "torchtitan": torchtitan,
    "megatron 2021": megatron.A100,
    "megatron 2024": megatron.H100,
    "korthikanti times": korthikanti.Times,
    "korthikanti memory": korthikanti.Memory,
    "nanotron": nanotron,
    "moe folding": experts.Folding,
    "moe modelzoo": experts.Modelzoo,
    "automodel": experts.AutoModel,
    "bridge": experts.Bridge,
    "megascale": megatron.MegaScale,
    "megatron b200": megatron.B200,
    "internevo": internevo,
    "gpt2": gpt2,
    "resnet50": resnet50,
    "torchgpipe": torchgpipe,
    "large models": large_models,
}


class UnknownTableError(ValueError):
    """A table that no family knows; the message names the columns that are needed."""


@dataclass(frozen=True)
class Table:
    """A table and what became of its rows.

    Attributes
    ----------
    family : str
        A key of `FAMILIES`.
    rows : list of dict
        Those with a prediction.
    predictions : list of Prediction
        One for each of `rows`.
    refused : list of tuple
        (line, reason) of the others.
    """

    family: str
    rows: list
    predictions: list
    refused: list

    @property
    def title(self):
        """What the rows are, and their source."""
        return FAMILIES[self.family].TITLE


def find_files(names):
    """Return the tables of that name; of a folder all that are in it, by name."""
    found = []
    for path in map(Path, names):
        found += sorted(path.glob("*.csv")) if path.is_dir() else [path]
    return found


def find_family(columns):
    """Return the name of the family with the most columns, all of which are there, or None."""
    known = [name for name, family in FAMILIES.items() if family.COLUMNS.issubset(columns)]
    return max(known, key=lambda name: len(FAMILIES[name].COLUMNS), default=None)


def read_rows(path):
    """Return the rows of a file, each a dict."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, restval=""))


def read(path, processes=1):
    """Return the `Table` in a file; raise `UnknownTableError` if no family knows it.

    `processes`: how many of them predict rows at a time.
    """
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, restval="")
        rows, columns = list(reader), reader.fieldnames or []
    family = find_family(columns)
    if family is None:
        known = (f"  {name}: {', '.join(sorted(f.COLUMNS))}" for name, f in FAMILIES.items())
        message = f"{path}: no family knows this table. Columns that are needed:"
        raise UnknownTableError("\n".join((message, *known)))
    if processes == 1:
        return predict(family, rows)
    with ProcessPoolExecutor(processes) as pool:
        return predict(family, rows, pool.map)


def predict(family, rows, run=map):
    """Return the `Table` of rows, each a dict; `run` calls a function for each, as `map` does."""
    kept, predictions, refused = [], [], []
    results = run(_predict_row, itertools.repeat(family), rows)
    for line, (row, found) in enumerate(zip(rows, results, strict=True), 2):  # 1 is the header
        if isinstance(found, UnpredictableError):
            refused.append((line, str(found)))
        else:
            kept.append(row)
            predictions.append(found)
    return Table(family, kept, predictions, refused)


def _predict_row(family, row):
    try:
        return FAMILIES[family].predict(row)
    except UnpredictableError as error:
        return error
    except PlanError as error:
        return UnpredictableError(str(error))

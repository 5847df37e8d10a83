"""The record of what Inductor makes of `programs`: ``records/inductor/kernels.json``.

``PYTHONPATH=tests python -m support.inductor.record`` writes it, in a minute. Tests compare with
the record, since Inductor itself takes seconds, and since it changes with PyTorch.
"""

import json
from dataclasses import asdict

import torch
from support.inductor.oracle import A100, InductorGraph, InductorKernel, kernels_of
from support.inductor.programs import PROGRAMS
from support.paths import ROOT

PATH = ROOT / "records" / "inductor" / "kernels.json"


def made():
    """Return what Inductor makes of each program: ``{name: [InductorGraph, ...]}``."""
    return {name: kernels_of(program("cpu")) for name, program in PROGRAMS.items()}


def lines(graph):
    """Return a graph as JSON, a kernel a line."""
    fields = asdict(graph)
    kernels = ",\n".join(f"   {json.dumps(kernel)}" for kernel in fields.pop("kernels"))
    return f'  {json.dumps(fields)[:-1]}, "kernels": [\n{kernels}]}}'


def write(graphs, path=PATH):
    """Write what Inductor makes of each program."""
    programs = ",\n".join(
        f" {json.dumps(name)}: [\n" + ",\n".join(map(lines, found)) + "]"
        for name, found in graphs.items()
    )
    facts = {"torch": torch.__version__.partition("+")[0], "processors": A100.multi_processor_count}
    text = f'{json.dumps(facts)[:-1]}, "programs": {{\n{programs}}}}}\n'
    path.write_text(text, encoding="utf-8")


def release(path=PATH):
    """Return the release of PyTorch that the record is of."""
    return json.loads(path.read_text(encoding="utf-8"))["torch"]


def read(path=PATH):
    """Return what Inductor made of each program."""
    programs = json.loads(path.read_text(encoding="utf-8"))["programs"]
    return {name: list(map(graph, found)) for name, found in programs.items()}


def graph(fields):
    """Return an `InductorGraph` from JSON."""
    kernels = [InductorKernel(**kernel) for kernel in fields["kernels"]]
    return InductorGraph(**{**fields, "kernels": kernels})


if __name__ == "__main__":
    write(made())

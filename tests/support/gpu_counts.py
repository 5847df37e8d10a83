"""Which cells of a notebook depend on the number of GPUs, and what they do.

    PYTHONPATH=.:tests python -m support.gpu_counts chapters/devices.ipynb ...

runs each notebook on machines with 0, 1, 2, 4 and 8 GPUs, by the double of `cuda_double`, and
prints a Markdown table: whether a cell uses real or simulated GPUs, and how those conditions
(``if``) came out that do not come out the same on all machines. Cells that do the same on all are
left out.
"""

import argparse
import ast
import json
import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from support.paths import PYTHONPATH

STARTUP = """
from support import gpu_counts
gpu_counts.watch()
del gpu_counts
"""


class _Conditions(ast.NodeTransformer):
    """Lets every condition of a cell pass through ``_condition(text, value)``."""

    def visit_If(self, node):
        text = ast.Constant(ast.unparse(node.test))
        self.generic_visit(node)
        node.test = ast.Call(ast.Name("_condition", ast.Load()), [text, node.test], [])
        return ast.fix_missing_locations(node)

    visit_IfExp = visit_If  # noqa: N815


def watch():
    """In a notebook's kernel: install the double, write a line of JSON for every cell.

    ``D2LMINI_DOUBLE`` is as `cuda_double.install_from_environment` takes it; ``D2LMINI_WATCH``
    names the file.
    """
    from support import cuda_double

    from d2lmini import sim

    shell, met = get_ipython(), set()  # noqa: F821 - the shell's own
    count, *kinds = os.environ["D2LMINI_DOUBLE"].split(":")
    real = cuda_double.install(int(count), *kinds)
    seen = {"real": [], "simulated": []}

    def works(kind, spans):
        """Say whether a device has done something since the last look."""
        before, seen[kind] = seen[kind], spans
        is_same_machine = spans[: len(before)] == before
        return any(s.device != "host" for s in spans[len(before) if is_same_machine else 0 :])

    def after_cell(_):
        spans = {
            "real": list(real.trace.spans()) if real else [],
            "simulated": list(sim.trace()) if sim.device_count() else [],
        }
        used = [kind for kind in spans if works(kind, spans[kind])]
        with open(os.environ["D2LMINI_WATCH"], "a", encoding="utf-8") as file:
            file.write(json.dumps({"used": used, "met": sorted(met)}) + "\n")
        met.clear()

    def condition(text, value):
        met.add((text, bool(value)))
        return value

    shell.user_ns_hidden["_condition"] = shell.user_ns["_condition"] = condition
    shell.ast_transformers.append(_Conditions())
    shell.events.register("post_run_cell", after_cell)


def run(path, machine):
    """Run a notebook on ``count:gpu:link``; return ``{index: (devices, conditions)}`` by cell."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        startup = Path(folder, "profile_default", "startup")
        startup.mkdir(parents=True)
        (startup / "00-watch.py").write_text(STARTUP, encoding="utf-8")
        watched = Path(folder, "cells.jsonl")
        env = os.environ | {
            "IPYTHONDIR": folder,
            "PYTHONPATH": PYTHONPATH,
            "D2LMINI_DOUBLE": machine,
            "D2LMINI_WATCH": str(watched),
            "D2LMINI_GPUS": "auto",
            "SIMGPU_FORCE": "",
            "OMP_NUM_THREADS": "1",
        }
        place = {"metadata": {"path": str(Path(path).parent)}}
        client = NotebookClient(notebook, timeout=1800, allow_errors=True, resources=place)
        client.execute(env=env)
        lines = [json.loads(line) for line in watched.read_text(encoding="utf-8").splitlines()]
    code = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    return {
        i: (_devices(notebook.cells[i], line["used"]), {tuple(c) for c in line["met"]})
        for i, line in zip(code, lines, strict=True)
    }


def _devices(cell, used):
    """Say what a cell asked for (``gpus(2): ...``) or worked with, and whether it failed."""
    text = "".join(o.get("text", "") for o in cell.outputs if o.output_type == "stream")
    asked = re.findall(r"^gpus\((\d+)\): (.*)$", text, re.MULTILINE)
    said = dict.fromkeys(f"{k} {'simulated' if 'simulated' in w else 'real'}" for k, w in asked)
    kinds = [kind for kind in used if not any(kind in words for words in said)]
    errors = [f"fails: {o.ename}" for o in cell.outputs if o.output_type == "error"]
    return ", ".join([*said, *kinds, *errors]) or "-"


def table(path, counts, kind):
    """Return the lines of one notebook's table."""
    results = [run(path, f"{count}:{kind}") for count in counts]
    heads = [f"{count} GPU{'s' * (count != 1)}" for count in counts]
    lines = ["| cell | begins with | " + " | ".join(heads) + " |"]
    lines.append("|---" * (2 + len(counts)) + "|")
    for i, cell in enumerate(nbformat.read(path, as_version=4).cells):
        if i not in results[0]:
            continue
        same = set.intersection(*(result[i][1] for result in results))
        row = ["; ".join([result[i][0], *_say(result[i][1] - same)]) for result in results]
        if len(set(row)) > 1:
            start = cell.source.splitlines()[0][:40].replace("|", r"\|")
            lines.append(f"| [{i}] | `{start}` | " + " | ".join(row) + " |")
    left_out = len(results[0]) - (len(lines) - 2)
    return [*lines, "", f"The other {left_out} cells do the same on all of these machines."]


def _say(conditions):
    return [f"{'if' if value else 'not'} `{text}`" for text, value in sorted(conditions)]


def main():
    """Print a table for each notebook."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--counts", nargs="+", type=int, default=[0, 1, 2, 4, 8])
    parser.add_argument("--kind", default="h200:pcie5", help="GPU:LINK, presets of the simulator")
    options = parser.parse_args()
    for path in options.notebooks:
        lines = table(path, options.counts, options.kind)
        print("\n".join([f"## {path.name}", "", *lines, ""]), flush=True)


if __name__ == "__main__":
    sys.exit(main())

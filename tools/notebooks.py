"""Keep notebooks in one normal form, and run them.

``--check`` fails if a notebook is not in normal form; ``--run`` executes notebooks and stores
their outputs; without an option the files are normalised.
"""

import argparse
import os
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[1]
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "name": "python", "pygments_lexer": "ipython3"},
}


def normalise(notebook):
    """Bring a notebook to normal form, in place.

    Fixed metadata; cells numbered in order, empty ones dropped; of a cell's metadata only tags
    and what the book needs; streams merged, text outputs without trailing white space in the
    sources.
    """
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.cells = [cell for cell in notebook.cells if cell.source.strip()]
    count = 0
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:03d}"
        cell.source = "\n".join(line.rstrip() for line in cell.source.strip().split("\n"))
        tags = cell.metadata.get("tags")
        cell.metadata = nbformat.from_dict({"tags": sorted(tags)} if tags else {})
        cell.pop("attachments", None)
        if cell.cell_type == "code":
            ran = cell.execution_count is not None or cell.outputs
            count += 1
            cell.execution_count = count if ran else None
            cell.outputs = [normal_output(o, count) for o in merge_streams(cell.outputs)]
    return notebook


def merge_streams(outputs):
    """Join neighbouring pieces of one stream: how a kernel cuts them is chance."""
    merged = []
    for output in outputs:
        last = merged[-1] if merged else None
        if last and output.output_type == last.output_type == "stream" and last.name == output.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged


def normal_output(output, count):
    """Fix an output's execution count and drop what front ends add."""
    output.pop("transient", None)
    if output.output_type == "execute_result":
        output.execution_count = count
    return output


def execute(notebook, folder):
    """Run a notebook from top to bottom in its own folder."""
    from nbclient import NotebookClient

    NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": str(folder)}}).execute()


def main(arguments=None):
    """Command line: returns the number of notebooks that are wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="fail on other than normal form")
    action.add_argument("--run", action="store_true", help="execute and store the outputs")
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all chapters")
    options = parser.parse_args(arguments)
    wrong = 0
    for path in options.notebooks or sorted((ROOT / "chapters").glob("*.ipynb")):
        before = path.read_text(encoding="utf-8")
        notebook = nbformat.reads(before, as_version=4)
        if options.run:
            print(f"running {path.name}", flush=True)
            execute(notebook, path.parent)
        after = nbformat.writes(normalise(notebook)) + "\n"
        if options.check and after != before:
            wrong += 1
            print(f"{path}: not in normal form; run: python tools/notebooks.py {path}")
        elif not options.check and after != before:
            temporary = path.with_suffix(".tmp")
            temporary.write_text(after, encoding="utf-8")
            os.replace(temporary, path)
            print(f"wrote {path}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())

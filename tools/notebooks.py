"""Keep notebooks in one normal form, and run them.

``--check`` fails if a notebook is not in normal form; ``--run`` executes notebooks and stores
their outputs; without an option the files are normalised.

The first line of a cell that is folded, a comment, is what the page shows in its place:
``# Checked: both together take at most 1.1 times the slower.`` Its first word becomes a tag of the
cell, `check`: all that looks for checks, solutions and the like looks for the tag. In a copy in
another language (`tools.words`) the tags stay, and what programs write into the text is reworded.
"""

import argparse
import math
import os
import re
import sys
from pathlib import Path

import nbformat

from tools import words
from tools.words import one_of, spellings
from tools.words.lines import exercise_lines, reword_exercises, time_line, written_time_line

ROOT = Path(__file__).parents[1]
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "name": "python", "pygments_lexer": "ipython3"},
}
KINDS = {  # a tag, and how the first line of such a cell begins
    "imports": "# Imports",
    "check": "# Checked: ",
    "solution": "# Solution",
    "helper": "# Helper: ",
    "picture": ("# How this picture ", "# How this table "),
    "curious": "# For the curious: ",
}
HIDDEN = {"hide-cell", "remove-cell", "hide-input", "remove-input"}
WORDS = 130  # a minute, those of visible code included: slower than a novel


def normalise(notebook):
    """Bring a notebook to normal form, in place.

    Fixed metadata; cells numbered in order, empty ones dropped; of a cell's metadata only tags
    and the line that stands for a folded cell; streams merged, no trailing white space in the
    sources; the time to read under the title.
    """
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.cells = [cell for cell in notebook.cells if cell.source.strip()]
    count = 0
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:03d}"
        cell.source = "\n".join(line.rstrip() for line in cell.source.strip().split("\n"))
        cell.metadata = nbformat.from_dict(normal_metadata(cell))
        if cell.cell_type == "markdown":
            cell.source = reword_exercises(cell.source)
        cell.pop("attachments", None)
        if cell.cell_type == "code":
            ran = cell.execution_count is not None or cell.outputs
            count += 1
            cell.execution_count = count if ran else None
            cell.outputs = [normal_output(o, count) for o in merge_streams(cell.outputs)]
    update_time_line(notebook)
    return notebook


def tags(cell):
    """Return a cell's tags."""
    return set(cell.metadata.get("tags", []))


def normal_metadata(cell):
    """Return a cell's tags, the prompt if it is folded, and what a screen reader says of its plot.

    The prompt is the first comment of the cell.
    """
    names = sorted(tags(cell) - set(KINDS) | kind(cell))
    metadata = {"tags": names} if names else {}
    folded = {"hide-cell", "hide-input"} & set(names)
    if folded and cell.cell_type == "code" and cell.source.startswith("# "):
        prompt = cell.source.partition("\n")[0][2:]
        metadata["mystnb"] = {"code_prompt_hide": prompt, "code_prompt_show": prompt}
    alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt")
    if alt:
        metadata.setdefault("mystnb", {})["image"] = {"alt": alt}
    return metadata


def kind(cell):
    """Return the tag that says what a folded cell is for, as a set; most cells have none.

    In a copy in another language the first line is translated, and the tag that is there stays.
    """
    if words.table():
        return tags(cell) & set(KINDS)
    if cell.cell_type != "code" or not tags(cell) & HIDDEN:
        return set()
    return {name for name, start in KINDS.items() if cell.source.startswith(start)}


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


def update_time_line(notebook, run=None):
    """Write under its title how many minutes a notebook takes, in place.

    The core and the whole of a chapter are told apart, and its exercises take the minutes that they
    state. In a copy in another language the minutes are those of the English.

    Parameters
    ----------
    notebook : nbformat.NotebookNode
    run : int, optional
        Minutes that it runs; by default what the line says already.
    """
    if not notebook.cells or not is_title(notebook.cells[0]):
        return
    first = notebook.cells[0]
    old = time_line(first.source)
    text = first.source[: old.start()] + first.source[old.end() :] if old else first.source
    title, _, rest = text.partition("\n")
    stated = {name: int(n) for name, n in old.groupdict().items()} if old else {}
    minutes = {"run": stated.get("run")}
    if old and words.table():
        minutes = stated
    else:
        minutes |= minutes_to_read(notebook, rest)
        minutes["exercises"] = sum(n for *_, n in exercise_lines(in_sight(notebook)))
    if run:
        minutes["run"] = run
    first.source = f"{title}\n\n{written_time_line(minutes)}\n\n{rest.lstrip()}".rstrip()


def in_sight(notebook):
    """Return what a reader of a page sees of its text and code, without the first cell."""
    cells = [c for c in notebook.cells[1:] if c.cell_type == "markdown" or not tags(c) & HIDDEN]
    return "\n\n".join(cell.source for cell in cells)


def part(text, titles):
    """Return what comes before a section, and the section with all that follows.

    Parameters
    ----------
    text : str
    titles : tuple of str
        What the section is called, in any language.
    """
    found = re.search(rf"^## {one_of(titles)}", text, re.MULTILINE)
    return (text[: found.start()], text[found.start() :]) if found else (text, "")


def minutes_to_read(notebook, opening):
    """Return how long a page takes to read: its core, if it has one, and all of it."""
    text, _ = part(f"{opening}\n\n{in_sight(notebook)}", spellings("Exercises"))
    whole = math.ceil(len(text.split()) / WORDS) or 1
    core, rest = part(text, spellings("Going deeper"))
    if not rest:
        return {"read": whole}
    _, summary = part(rest, spellings("Summary"))
    return {"read": math.ceil(len(f"{core} {summary}".split()) / WORDS), "all": whole}


def is_title(cell):
    """Return whether a cell begins with the title of a page."""
    return cell.cell_type == "markdown" and cell.source.startswith("# ")


def execute(notebook, folder):
    """Run a notebook from top to bottom in its own folder; note the minutes under its title.

    They are minutes of processor time, on one thread: others on this machine do not count.
    """
    from nbclient import NotebookClient

    before = processor_seconds()
    NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": str(folder)}}).execute()
    update_time_line(notebook, run=max(1, math.ceil((processor_seconds() - before) / 60)))


def processor_seconds():
    """Return the processor time of all processes that this one has started and that have ended."""
    times = os.times()
    return times.children_user + times.children_system


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
            print(f"{path}: not in normal form; run: python -m tools.notebooks {path}")
        elif not options.check and after != before:
            temporary = path.with_suffix(".tmp")
            temporary.write_text(after, encoding="utf-8")
            os.replace(temporary, path)
            print(f"wrote {path}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())

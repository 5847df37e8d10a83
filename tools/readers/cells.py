"""The cells of a reader's notebook: folded where the page folds, with room for one's own work."""

import copy
import re

from nbformat.v4 import new_code_cell, new_markdown_cell

from tools import notebooks
from tools.readers import pictures, text
from tools.words import pattern, say, spellings, split_prompt

HIDDEN_OUTPUT = {"hide-output", "hide-cell", "remove-output", "remove-cell"}


def exercises(text):
    """Return the starts of a text's exercises and their numbers, by their headings."""
    found = {}
    for heading in spellings("Exercise {n}"):
        for match in re.finditer(f"^### {pattern(heading)}", text, re.MULTILINE):
            found[match.start()] = int(match["n"])
    return found


def convert(cell, page_text, cache=None):
    """Return the cells that take the place of one cell of the source."""
    if cell.cell_type != "code":
        words = page_text.convert(cell.source)
        return [new_markdown_cell(words)] if words.strip() else []
    own = new_code_cell(cell.source)
    if "remove-cell" in notebooks.tags(cell) and not own.source.startswith("#"):
        prepared = say("Helper: what later cells need")
        own.source = f"# {prepared}\n{own.source}"  # JupyterLab shows the first line of a fold
    own.execution_count = cell.execution_count
    kept = (outputs(output, cache, cell.metadata) for output in cell.outputs)
    own.outputs = [output for output in kept if output]
    own.metadata = metadata(notebooks.tags(cell), own.outputs)
    if "raises-exception" in notebooks.tags(cell):
        own.metadata["tags"] = ["raises-exception"]  # running all cells goes on after it
    if "check" not in notebooks.tags(cell):
        return [own]
    prompt, _, own.source = own.source.removeprefix("# ").partition("\n")
    checked = say("Checked: {what}", what=escaped(split_prompt(prompt)[1]))
    return [new_markdown_cell(f"*{checked}*"), own]


def escaped(words):
    """Return the words of a comment as Markdown that shows them as they are, code as code."""
    pieces = words.strip().split("`")
    pieces[::2] = [re.sub(r"([\\*_<$[\]])", r"\\\1", piece) for piece in pieces[::2]]
    return "`".join(pieces)


def metadata(tags, stored):
    """Return a cell's metadata: what is folded in JupyterLab and VS Code, Colab and Kaggle."""
    folds = {}
    if tags & notebooks.HIDDEN:
        folds |= {"jupyter": {"source_hidden": True}, "cellView": "form", "_kg_hide-input": True}
    if tags & HIDDEN_OUTPUT and stored:
        folds.setdefault("jupyter", {})["outputs_hidden"] = True
        folds |= {"collapsed": True, "_kg_hide-output": True}
    return folds


def outputs(output, cache=None, of_cell=None):
    """Return an output as a reader gets it, None for what was stored for the text alone.

    The metadata of its cell have the sentence that says what a timeline shows.
    """
    output = copy.deepcopy(output)
    data = output.get("data", {})
    if data and all(mime.startswith(text.SCRAP) for mime in data):
        return None
    if pictures.is_timeline(data.get("text/html", "")):
        html = pictures.described(data["text/html"], of_cell or {})
        new, sizes = pictures.static(html, cache)
        data.update(new)
        output.metadata.update(sizes)
    return output


def with_own_cells(cells):
    """Return the cells with an empty one after the statement of each exercise.

    What stands below a solution until the next heading belongs to it, and is folded as well.
    """
    result, waiting, solved = [], False, False
    for cell in cells:
        is_text = cell.cell_type == "markdown"
        if is_text and re.match(r"#{1,3} ", cell.source):
            if waiting:
                result.append(new_code_cell())
            waiting, solved = 0 in exercises(cell.source), False
        elif is_text and solved:
            cell.source = text.folded(say("More about this exercise"), cell.source)
        elif solved:
            cell.metadata = metadata({"hide-cell"}, cell.outputs)
        elif not is_text and waiting and cell.metadata.get("jupyter", {}).get("source_hidden"):
            result.append(new_code_cell())
            waiting, solved = False, True
        result.append(cell)
    return [*result, new_code_cell()] if waiting else result


def split_exercises(cells):
    """Return the cells with each exercise's statement, and each heading, at the start of one."""
    result = []
    for cell in cells:
        starts = sorted(exercises(cell.source))
        if cell.cell_type != "markdown" or not [start for start in starts if start]:
            result.append(cell)
            continue
        for start, end in zip([0, *starts], [*starts, None], strict=True):
            if words := cell.source[start:end].strip():
                result.append(new_markdown_cell(words))
    return result

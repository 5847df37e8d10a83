"""Numbers that cells hand to the text: readers have them in the text, and not the calls."""

import ast
import copy
import re

from tools.notebooks import tags

GLUE = "glue"


def without_numbers(cells):
    """Return the cells without what only hands numbers to the text.

    Calls of `glue` go, and its import, and loops of nothing else. Of a cell that the page does not
    show, what is left stays only if a later cell needs it.
    """
    kept = []
    for cell in reversed(cells):
        if cell.cell_type == "code" and GLUE in cell.source:
            cell = copy.deepcopy(cell)
            cell.source = without_glue(cell.source)
        hidden = cell.cell_type == "code" and "remove-cell" in tags(cell)
        if not (hidden and not _needed(cell.source, kept)):
            kept.append(cell)
    return kept[::-1]


def without_glue(source):
    """Return a program without its calls of `glue`, and without the import."""
    whole = source.split("\n")
    body = _body(source)
    gone = [node for node in body if _hands_on(node)]
    for node in body:
        if isinstance(node, ast.For) and not _hands_on(node):
            gone += [inner for inner in node.body if _hands_on(inner)]
    for node in sorted(gone, key=lambda node: -node.lineno):
        del whole[node.lineno - 1 : node.end_lineno]
    return "\n".join(whole).strip("\n")


def _body(source):
    """Return the statements of a cell; lines for the shell and for IPython are empty ones."""
    try:
        return ast.parse(re.sub(r"^[%!].*$", "pass", source, flags=re.MULTILINE)).body
    except SyntaxError:
        return []


def _hands_on(node):
    """Return whether a statement does nothing but hand a number on, or imports what does."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "myst_nb"
    if isinstance(node, ast.For):
        return all(map(_hands_on, node.body))
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and getattr(call.func, "id", "") == GLUE


def _needed(source, later):
    """Return whether a later cell uses a name that a program binds."""
    used = {
        n.id
        for cell in later
        if cell.cell_type == "code"
        for node in _body(cell.source)
        for n in ast.walk(node)
        if isinstance(n, ast.Name)
    }
    return bool(_bound(source) & used)


def _bound(source):
    """Return the names that a program assigns, defines or imports, at any depth."""
    found = set()
    for node in ast.walk(ast.Module(_body(source), [])):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
    return found

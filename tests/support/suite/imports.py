"""Which modules of the repository a text imports: read, not run."""

import ast
import json
from functools import cache

FOLDERS = ("simgpu", "d2lmini", "benchmarks", "tools", "chapters")


def name_of(path, root):
    """Return the name by which a file is imported from a folder."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_in(root, folders=FOLDERS):
    """Return the modules of some folders: ``{name: path}``."""
    return {name_of(path, root): path for name in folders for path in (root / name).rglob("*.py")}


def source(path):
    """Return the text of a module, or of a notebook's cells of code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return text
    cells = json.loads(text)["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def import_statements(nodes, in_function=False):
    """Yield each import among some statements and in them, and whether a function has it."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, in_function
        inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            yield from import_statements(getattr(node, part, ()), inside)


@cache
def parsed_imports(path):
    """Return (module, names imported from it, whether inside a function) of each import in a file.

    A plain ``import a`` has no names.
    """
    found = []
    for node, in_function in import_statements(ast.parse(source(path), path).body):
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.Import):
            found += [(name, (), in_function) for name in names]
        else:
            assert node.level == 0, f"{path} has a relative import"
            found.append((node.module, names, in_function))
    return found


def imports(path, known):
    """Return (module, whether it stands inside a function) for each import in a file.

    Of ``from a import b`` the module is ``a.b`` if that is in `known`, else ``a``.
    """
    return [
        (full if (full := f"{module}.{name}") in known else module, in_function)
        for module, names, in_function in parsed_imports(path)
        for name in names or [""]
    ]


def reached(paths, known):
    """Return all modules that some files import, and those in turn: names, known or not.

    With a module, those of the packages that it is in are imported.
    """
    left, found = list(paths), set()
    while left:
        for name, _ in imports(left.pop(), known):
            parts = name.split(".")
            new = {".".join(parts[: i + 1]) for i in range(len(parts))} - found
            found |= new
            left += [known[module] for module in new if module in known]
    return found

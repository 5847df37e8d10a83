"""Write notebooks where readers work, and never over what a reader has changed.

A notebook counts as changed if its cells or their outputs are: front ends save other metadata than
they read, without anybody's doing. The standard library is enough for all but `trust`.
"""

import hashlib
import json
import os
import sys

RECORD = ".built.json"  # the digests of the files as they were written


def tell(message):
    """Tell the reader."""
    print(f"notebooks: {message}")


def write(path, content):
    """Write a file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def digest(name, content):
    """Return what identifies a file's content; of a notebook, its cells and their outputs."""
    if name.endswith(".ipynb"):
        try:
            cells = [_essence(cell) for cell in json.loads(content)["cells"]]
            content = json.dumps(cells, sort_keys=True).encode()
        except (ValueError, KeyError, TypeError):
            pass  # no notebook any more, so changed
    return hashlib.sha256(content).hexdigest()


def _essence(cell):
    outputs = [
        [output["output_type"], output.get("name"), output.get("text"), output.get("data")]
        for output in cell.get("outputs", [])
    ]
    return [cell["cell_type"], _joined(cell["source"]), _joined(outputs)]


def _joined(value):
    """Return lists of lines as one text: both are a notebook's way to write it."""
    if isinstance(value, dict):
        return {key: _joined(item) for key, item in value.items()}
    if isinstance(value, list):
        is_text = value and all(isinstance(item, str) for item in value)
        return "".join(value) if is_text else [_joined(item) for item in value]
    return value


def record(folder):
    """Return the digests of what was written into a folder, by name."""
    path = folder / RECORD
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        sys.exit(
            f"notebooks: {path} is damaged; remove it, and all notebooks beside it count as yours, "
            "and are kept"
        )
    return found


def current(folder, name):
    """Return the digest of a file as it is now, None if it is not there."""
    path = folder / name
    return digest(name, path.read_bytes()) if path.exists() else None


def is_changed(folder, name):
    """Return whether a file is other than it was written."""
    return current(folder, name) not in (None, record(folder).get(name))


def changed(folder):
    """Return the names of the files that hold a reader's work."""
    paths = [*folder.glob("*.ipynb"), *folder.glob("[!.]*/*.ipynb")]
    names = {path.relative_to(folder).as_posix() for path in paths} | set(record(folder))
    return sorted(name for name in names if is_changed(folder, name))


def put(folder, name, content):
    """Write a file and note what was written."""
    write(folder / name, content)
    known = record(folder) | {name: digest(name, content)}
    write(folder / RECORD, json.dumps(known, indent=1).encode())


def place(folder, name, content):
    """Write a notebook, or beside it if a reader has changed it; return the name that it got.

    Whoever works on the newest version already gets no other.
    """
    new = digest(name, content)
    stem, number, candidate = name.removesuffix(".ipynb"), 1, name
    while is_changed(folder, candidate) and current(folder, candidate) != new:
        if record(folder).get(candidate) == new:
            return candidate
        number += 1
        candidate = f"{stem}-{number}.ipynb"
    put(folder, candidate, content)
    return candidate


def place_all(folder, pages):
    """Write the notebooks and the files beside them; say what was kept.

    What was written before, has no place any more and was not changed is removed.

    Returns
    -------
    list of str
        The names that the notebooks got.
    """
    names, files = [], set()
    for page in pages:
        files |= set(page.placed)
        for name, source in page.placed.items():
            content = source.read_bytes()
            if is_changed(folder, name) and current(folder, name) != digest(name, content):
                tell(f"{name} has your changes and is kept")
            else:
                put(folder, name, content)
        name = place(folder, page.file, page.content)
        names.append(name)
        if name != page.file:
            tell(f"{page.file} has your changes and is kept; its new version is {name}")
        elif is_changed(folder, name):
            tell(f"{name} has your changes and is kept")
    drop(folder, set(record(folder)) - {*names, *files})
    return names


def drop(folder, names):
    """Remove files that nobody has changed, and forget them."""
    gone = {name for name in names if not is_changed(folder, name)}
    for name in gone:
        (folder / name).unlink(missing_ok=True)
    if gone:
        known = {name: value for name, value in record(folder).items() if name not in gone}
        write(folder / RECORD, json.dumps(known, indent=1).encode())


def trust(folder, names):
    """Sign notebooks as they were written, so that JupyterLab shows all of their outputs."""
    import nbformat
    from nbformat.sign import NotebookNotary

    notary = NotebookNotary()
    for name in names:
        if not is_changed(folder, name):
            notary.sign(nbformat.read(folder / name, as_version=4))

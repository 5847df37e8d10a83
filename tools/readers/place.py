"""Write notebooks where readers work, and never over what a reader has changed."""

import hashlib
import json
import os

RECORD = ".built.json"  # the digests of the notebooks as they were written


def write(path, content):
    """Write a file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def digest(content):
    """Return what identifies a content."""
    return hashlib.sha256(content).hexdigest()


def record(folder):
    """Return the digests of what was written into a folder, by name."""
    path = folder / RECORD
    return json.loads(path.read_text()) if path.exists() else {}


def is_changed(folder, name):
    """Say whether a notebook is other than it was written."""
    path = folder / name
    return path.exists() and record(folder).get(name) != digest(path.read_bytes())


def changed(folder):
    """Return the names of the files that hold a reader's work."""
    known = [name for name in record(folder) if is_changed(folder, name)]
    own = [p.name for p in folder.glob("*.ipynb") if p.name not in record(folder)]
    return sorted(known + own)


def place(folder, name, content):
    """Write a notebook, or beside it if it was changed since; return the name that it got.

    A reader who works on the newest version already gets no other.
    """
    known, new = record(folder), digest(content)
    stem, number, candidate = name.removesuffix(".ipynb"), 1, name
    while is_changed(folder, candidate) and known.get(candidate) != new:
        if digest((folder / candidate).read_bytes()) == new:
            break
        number += 1
        candidate = f"{stem}-{number}.ipynb"
    if not is_changed(folder, candidate) or known.get(candidate) != new:
        write(folder / candidate, content)
        write(folder / RECORD, json.dumps(known | {candidate: new}, indent=1).encode())
    return candidate


def place_all(folder, pages):
    """Write the notebooks and the files beside them; say what was kept.

    Returns
    -------
    list of str
        The names that the notebooks got.
    """
    names = []
    for page in pages:
        for name, source in page.files.items():
            place_file(folder, name, source.read_bytes())
        name = place(folder, page.file, page.content)
        names.append(name)
        if name != page.file:
            say(f"{page.file} has your changes and is kept; its new version is {name}")
        elif is_changed(folder, name):
            say(f"{name} has your changes and is kept")
    return names


def place_file(folder, name, content):
    """Write a file that belongs beside a notebook, unless it was changed since."""
    if is_changed(folder, name):
        if digest((folder / name).read_bytes()) != digest(content):
            say(f"{name} has your changes and is kept")
        return
    write(folder / name, content)
    write(folder / RECORD, json.dumps(record(folder) | {name: digest(content)}, indent=1).encode())


def say(message):
    """Tell the reader."""
    print(f"notebooks: {message}")


def trust(folder, names):
    """Sign notebooks as they were written, so that JupyterLab shows all of their outputs."""
    import nbformat  # not above: make clean has no environment yet
    from nbformat.sign import NotebookNotary

    notary = NotebookNotary()
    for name in names:
        if not is_changed(folder, name):
            notary.sign(nbformat.read(folder / name, as_version=4))

"""Whether anything has changed since the notebooks were built: else they are there at once."""

import hashlib
import json

from tools.readers import place

STAMP = ".built-from.json"
FOLDERS = ("chapters", "d2lmini", "simgpu", "tools", "benchmarks", "records")
SUFFIXES = (".ipynb", ".md", ".yml", ".bib", ".py", ".js", ".css", ".svg", ".png", ".json", ".csv")


def state_of(root, *settings) -> str:
    """Return what changes with any file that notebooks are built from: times and sizes."""
    paths = [*root.glob("*"), *(path for name in FOLDERS for path in (root / name).rglob("*"))]
    found = [(path, path.stat()) for path in paths if path.suffix in SUFFIXES]
    lines = sorted(f"{path.relative_to(root)} {s.st_mtime_ns} {s.st_size}" for path, s in found)
    return hashlib.sha256("\n".join([*map(str, settings), *lines]).encode()).hexdigest()


def first_if_unchanged(folder, state):
    """Return the name of the first notebook; None if they have to be built."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
        is_current = stamp["state"] == state
    except (OSError, ValueError, TypeError, KeyError):
        return None
    files = place.record(folder)
    is_whole = bool(files) and all((folder / name).exists() for name in files)
    return stamp["first"] if is_current and is_whole else None


def note(folder, state, first):
    """Note what the notebooks were built from."""
    content = json.dumps({"state": state, "first": first}).encode()
    place.write(folder / STAMP, content)

"""Translations whose English has changed: which block of today each belonged to."""

import difflib
import subprocess
from functools import cache
from pathlib import Path

import nbformat

from tools.editions import pages
from tools.editions.blocks import digest

ROOT = Path(__file__).parents[2]
LIKE = 0.5  # as similar as that are two versions of one block, at least
VERSIONS = 60  # of a page, that are looked through


@cache
def older_blocks(name, root=ROOT):
    """Return the blocks of a page in all versions that git has, by digest."""
    found = {}
    for ending in (".ipynb", ".md"):
        file = f"{name}{ending}"
        for commit in _git(root, "log", f"-{VERSIONS}", "--format=%H", "--", file).split():
            text = _git(root, "show", f"{commit}:{file}")
            if not text:
                continue
            if ending == ".ipynb":
                cells = nbformat.reads(text, as_version=4).cells
            else:
                cells = [nbformat.v4.new_markdown_cell(text)]
            found |= {digest(block): block for cell in cells for block in pages.of_cell(cell)}
    return found


def _git(root, *arguments):
    """Return what git says, nothing if it knows of nothing."""
    done = subprocess.run(
        ["git", *arguments], cwd=root, text=True, capture_output=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def pair(missing, orphans, older):
    """Return which orphan each missing block has been, where one is like it.

    Parameters
    ----------
    missing : list of str
        English blocks that have no translation.
    orphans : iterable of str
        Digests of translations that have no English block any more.
    older : dict
        English blocks of older versions, by digest.

    Returns
    -------
    dict
        Digest of the orphan, by block; the most similar ones first.
    """
    known = [key for key in orphans if key in older]
    likeness = sorted(
        (
            (difflib.SequenceMatcher(None, older[key].split(), block.split()).ratio(), block, key)
            for block in missing
            for key in known
        ),
        reverse=True,
    )
    found, taken = {}, set()
    for ratio, block, key in likeness:
        if ratio >= LIKE and block not in found and key not in taken:
            found[block] = key
            taken.add(key)
    return found

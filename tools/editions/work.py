"""What a translator works with: what is left to do, and how what is done gets in."""

import difflib
import html
from pathlib import Path

from tools.editions import history, pages, store
from tools.editions.blocks import digest

ROOT = Path(__file__).parents[2]
SIDE = """<!doctype html><meta charset="utf-8"><title>{name}</title>
<style>td{{vertical-align:top;width:50%;padding:6px;border-top:1px solid #ccc}}
table{{width:100%}}pre{{white-space:pre-wrap;font:15px system-ui;margin:0}}</style>
<table>{rows}</table>
"""


def unfinished(language, name, root=ROOT):
    """Return a page's blocks without translation, and the digests whose block is gone."""
    blocks, table = pages.blocks_of(name, root), store.read(language, name, root)
    keys = {digest(block) for block in blocks}
    return [b for b in blocks if digest(b) not in table], [key for key in table if key not in keys]


def todo(language, name, root=ROOT):
    """Return what is left to translate on a page, as a file to fill in.

    Under each mark stands the English, which the translation takes the place of. If there was a
    translation of an older text, the lines with ``% `` say what has changed, and quote it.
    """
    missing, orphans = unfinished(language, name, root)
    table = store.read(language, name, root)
    older = history.older_blocks(name, root) if orphans and missing else {}
    was = history.pair(missing, orphans, older)
    parts = []
    for block in missing:
        notes = []
        if key := was.get(block):
            notes = changes(older[key], block) + table[key].split("\n")
        quoted = "".join(f"% {line}\n" for line in notes)
        parts.append(f"{store.mark(digest(block), block)}\n{quoted}{block}\n")
    return "\n".join(parts)


def changes(old, new):
    """Return what has changed between two versions of a block, as lines."""
    pieces = [p for p in difflib.ndiff(old.split(), new.split()) if p[0] in "+-"]
    return [f"changed: {'  '.join(pieces)}", "the translation of the older text:"]


def add(language, name, text, root=ROOT):
    """Take translations into a page's file.

    Parameters
    ----------
    text : str
        A file such as `todo` gives, filled in.

    Returns
    -------
    int
        How many were taken in.

    Raises
    ------
    ValueError
        If a mark is of no block of the page.
    """
    blocks = pages.blocks_of(name, root)
    english = {digest(block): block for block in blocks}
    new = store.parse(text)
    if unknown := set(new) - set(english):
        raise ValueError(
            f"{name}: no block has the mark {', '.join(sorted(unknown))}; "
            f"`python -m tools.editions todo {language} {name}` lists those there are"
        )
    table = store.read(language, name, root)
    missing, orphans = unfinished(language, name, root)
    if orphans:
        was = history.pair(missing, orphans, history.older_blocks(name, root))
        done = {was.get(english[key]) for key in new}
        left = [b for b in missing if digest(b) not in new]
        table = {k: t for k, t in table.items() if k in english or (left and k not in done)}
    store.write(language, name, blocks, table | new, root)
    return len(new)


def status(root=ROOT, languages=()):
    """Yield lines that say how much of each page is translated."""
    yield f"{'page':40}" + "".join(f"{language:>24}" for language in languages)
    for name in pages.names(root):
        blocks = pages.blocks_of(name, root)
        line = f"{name:40}"
        for language in languages:
            missing, orphans = unfinished(language, name, root)
            stale = min(len(orphans), len(missing))
            said = f"{len(blocks) - len(missing)} of {len(blocks)}"
            line += f"{said + (f', {stale} stale' if stale else ''):>24}"
        yield line


def side(language, name, root=ROOT):
    """Return a page's English and its translation beside each other, as HTML."""
    table = store.read(language, name, root)
    rows = "".join(
        f"<tr><td><pre>{html.escape(block)}</pre><td><pre>"
        f"{html.escape(table.get(digest(block), '(no translation)'))}</pre>"
        for block in pages.blocks_of(name, root)
    )
    return SIDE.format(name=html.escape(name), rows=rows)

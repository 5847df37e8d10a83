"""The translated blocks of a page: ``editions/LANG/PAGE.md``.

A line ``%% 4307aae0 Two GPUs are ...`` gives the digest of the English block and, for the eye only,
how that begins. What stands below it, up to the next such line, is the translation.
"""

import re
from pathlib import Path

from tools.editions.blocks import digest

ROOT = Path(__file__).parents[2]
MARK = re.compile(r"^%% ([0-9a-f]{8})\b.*$", re.MULTILINE)
SHOWN = 60  # letters of the English block


def path_of(language, page, root=ROOT):
    """Return the file with the translated blocks of a page."""
    return root / "editions" / language / f"{page}.md"


def parse(text):
    """Return the translations in the text of such a file, by digest, in its order.

    Lines that begin with a single ``% `` are notes; they are dropped.
    """
    _, *parts = MARK.split(text)
    bodies = (re.sub(r"(?m)^%(?: .*)?\n", "", body).strip("\n") for body in parts[1::2])
    return {key: body for key, body in zip(parts[::2], bodies, strict=True) if body.strip()}


def read(language, page, root=ROOT):
    """Return the translations of a page, by digest; none where there is no file."""
    path = path_of(language, page, root)
    return parse(path.read_text(encoding="utf-8")) if path.exists() else {}


def text_of(blocks, translations):
    """Return the text of a file: the translations of a page's blocks in the order of the English.

    A translation whose block is no longer there stays behind the one that it followed, so that its
    words are at hand for the block that has taken its place.

    Parameters
    ----------
    blocks : iterable of str
        The English blocks of the page.
    translations : dict
        By digest, in the order that they had.
    """
    english = {digest(block): block for block in blocks}
    order = [key for key in english if key in translations]
    for before, key in zip([None, *translations], translations, strict=False):
        if key not in english:
            order.insert(order.index(before) + 1 if before in order else 0, key)
    return "".join(f"{mark(key, english.get(key))}\n{translations[key]}\n\n" for key in order)


def mark(key, block=None):
    """Return the line above a translation."""
    beginning = " ".join((block or "(no such block any more)").split())
    shown = beginning if len(beginning) <= SHOWN else f"{beginning[:SHOWN].rsplit(' ', 1)[0]} ..."
    return f"%% {key} {shown}"


def write(language, page, blocks, translations, root=ROOT):
    """Write the translations of a page."""
    path = path_of(language, page, root)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text_of(blocks, translations).rstrip("\n") + "\n", encoding="utf-8")

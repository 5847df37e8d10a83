"""The few icons that the pages show, as a style sheet in place of a script with all of them."""

import json
import re
from pathlib import Path

import pydata_sphinx_theme

THEME = Path(pydata_sphinx_theme.__file__).parent / "theme" / "pydata_sphinx_theme" / "static"
SCRIPT = THEME / "scripts" / "fontawesome.js"
ENTRY = r'[,{]"?%s"?:\[(\d+),(\d+),\[[^\]]*\],"[0-9a-f]+","([^"]+)"\]'
USED = re.compile(r'<(?:i|span) class="([^"]*\bfa[srb]?(?:-solid|-regular)?\b[^"]*)"')
SIZES = {"fa-lg", "fa-solid", "fa-regular", "fa-brands", "fa-fw", "fa-sm", "fa-xs"}
OLD_NAMES = {"file-archive": "file-zipper"}
RULES = """\
/* Font Awesome Free, CC BY 4.0, fontawesome.com */
:is(.fas, .fa-solid) { display: inline-block; width: 1em; height: 1em; vertical-align: -0.125em;
  background: currentColor; mask: var(--icon) center / contain no-repeat;
  forced-color-adjust: none; }
.fa-lg { font-size: 1.25em; vertical-align: -0.075em; }
"""


def names(page):
    """Return the names of the icons in a page's HTML.

    Examples
    --------
    >>> names('<i class="fa-solid fa-sun fa-lg" title="Light"></i>')
    {'sun'}
    """
    classes = {c for found in USED.findall(page) for c in found.split()}
    return {c.removeprefix("fa-") for c in classes - SIZES if c.startswith("fa-")}


def drawing(name, script):
    """Return an icon as the address of an image that needs no file."""
    found = re.search(ENTRY % re.escape(OLD_NAMES.get(name, name)), script)
    if not found:
        raise ValueError(f"no icon is called {name}: see {SCRIPT}")
    width, height, path = found.groups()
    image = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}'>"
    return json.dumps(f"data:image/svg+xml,{image}<path d='{path}'/></svg>")


def sheet(used):
    """Return the style sheet of the icons with these names."""
    script = SCRIPT.read_text(encoding="utf-8")
    return RULES + "".join(
        f".fa-{name} {{ --icon: url({drawing(name, script)}); }}\n" for name in sorted(used)
    )

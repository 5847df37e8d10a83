"""What the book's table of contents lists."""

import yaml
from support.paths import ROOT


def toc_files():
    """Return the names of all pages, without their suffixes, in the book's order."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    return [toc["root"], *(entry["file"] for part in toc["parts"] for entry in part["chapters"])]

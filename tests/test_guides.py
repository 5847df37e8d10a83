"""The guides for contributors name files that exist."""

import re

import pytest
from support.paths import ROOT

GUIDES = ("CONTRIBUTING.md", "simgpu/CONTRIBUTING.md", "translating.md")
PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)*/?)`")
# What readers write or build, and names of files that stand for many.
MADE = ("__init__.py", "_build", ".venv", "chapters/NAME", "editions/LANG", "records/FILE")


def named(text):
    """Yield each path that a guide names, and the folders that the same item names before it."""
    for item in re.split(r"\n(?=\||\d+\. |- |\n)", text):
        folders = []
        for path in PATH.findall(item):
            if not ("/" in path or re.search(r"\.(py|js|css|md|cfg|toml|yml|txt|bib)$", path)):
                continue
            yield path, list(folders)
            folder = path.rstrip("/") if path.endswith("/") else path.rpartition("/")[0]
            folders += [folder] if folder else []


@pytest.mark.parametrize("guide", GUIDES)
def test_every_file_that_a_guide_names_exists(guide):
    text = (ROOT / guide).read_text(encoding="utf-8")
    bases = [ROOT, (ROOT / guide).parent]
    missing = []
    for path, folders in named(text):
        if path.startswith(MADE):
            continue
        places = [base / folder for base in bases for folder in ("", *folders)]
        places += [place.parent for place in places]
        if not any((place / path).exists() for place in places):
            missing.append(path)
    assert missing == []

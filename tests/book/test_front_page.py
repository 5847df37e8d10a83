"""The front page: its numbers are those of the chapters."""

import re

import nbformat
import pytest
import yaml
from nbformat.v4 import new_markdown_cell, new_notebook
from support.paths import ROOT

from tools import front_page

TEXT = (ROOT / "intro.md").read_text(encoding="utf-8")
GLUED = re.findall(r"\{glue:text\}`([^`:]+)::(\w+):s`", TEXT)


def glued(path):
    """Return what a notebook's stored outputs glue: ``{name: text}``."""
    outputs = [o for c in nbformat.read(ROOT / path, 4).cells for o in c.get("outputs", [])]
    records = [o for o in outputs if "scrapbook" in o.get("metadata", {})]
    key = "application/papermill.record/text/plain"
    return {o.metadata.scrapbook.name: o.data[key].strip("'") for o in records}


def test_numbers_come_from_chapters():
    assert GLUED
    for path, name in GLUED:
        assert name in glued(path), f"{path} glues no {name}: the front page shows nothing"
    typed = re.findall(r"\d[\d.,]* times", TEXT)
    assert typed == [], "a number that no chapter computes"


def test_the_puzzle_is_one():
    values = glued("chapters/multiple-gpus.ipynb")
    assert float(values["speedup"]) < 1, "the front page says that two GPUs are slower than one"
    assert float(values["there_eight"]) > 4, "and that eight can be much faster"


def test_minutes_are_those_of_the_chapters():
    assert front_page.update(TEXT) == TEXT, "python -m tools.front_page writes them"


def test_every_chapter_has_a_row():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    rows = {row[2] for row in front_page.ROW.finditer(TEXT)}
    for entry in [e for part in toc["parts"][:-1] for e in part["chapters"]]:
        assert f"{entry['file']}.ipynb" in rows


@pytest.mark.parametrize("minutes", [7, 36])
def test_minutes_are_copied(tmp_path, minutes):
    (tmp_path / "chapters").mkdir()
    cell = new_markdown_cell(f"# A\n\n*{minutes} minutes to read, 1 minute to run.*\n\nText")
    nbformat.write(new_notebook(cells=[cell]), tmp_path / "chapters" / "a.ipynb")
    text = "| [A](chapters/a.ipynb) | 0 | b |\n| [B](chapters/b.ipynb) | 5 | c |"
    assert front_page.update(text, tmp_path) == text.replace("| 0 |", f"| {minutes} |")

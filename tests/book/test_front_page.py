"""The front page: its numbers are those of the chapters."""

import re

import nbformat
import pytest
import yaml
from nbformat.v4 import new_markdown_cell, new_notebook
from support.paths import ROOT

from tools import front_page, poster
from tools.pictographs import pictographs

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


def test_every_chapter_has_a_card_with_its_number_picture_and_finding():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [entry["file"] for part in toc["parts"][:-1] for entry in part["chapters"]]
    cards = re.findall(r":::\{grid-item-card\}\n(!.*?)\n:::", TEXT, re.DOTALL)
    assert len(cards) == len(chapters)
    for number, (card, chapter) in enumerate(zip(cards, chapters, strict=True), 1):
        title = nbformat.read(ROOT / f"{chapter}.ipynb", 4).cells[0].source.splitlines()[0][2:]
        assert f"**{number} [{title}]({chapter}.ipynb)**, " in card
        assert f"{{glue:text}}`{chapter}.ipynb::" in card, f"{title}: a finding of its own"
        assert (ROOT / re.match(r"!\[\]\((.*)\)", card)[1]).exists()


def test_the_timeline_is_what_the_simulator_says():
    timeline = poster.simulate()
    assert poster.draw(timeline) == (poster.FOLDER / "timeline.svg").read_text(encoding="utf-8")
    lanes = timeline.lanes()
    for rank in range(poster.RANKS):
        (_, _, computes), (_, _, sends) = poster.row(lanes, rank)
        assert sum(end - begin for begin, end in computes) > 0.8 * (timeline.end - timeline.start)
        hidden = sum(
            max(0, min(end, other_end) - max(begin, other))
            for begin, end in sends
            for other, other_end in computes
        )
        assert hidden > 0.5 * sum(end - begin for begin, end in sends), "most of it is hidden"


def test_the_pictographs_are_current():
    for name, svg in pictographs().items():
        assert (poster.FOLDER / name).read_text(encoding="utf-8") == svg, "python -m tools.poster"


@pytest.mark.parametrize("minutes", [7, 36])
def test_minutes_are_copied(tmp_path, minutes):
    (tmp_path / "chapters").mkdir()
    cell = new_markdown_cell(f"# A\n\n*{minutes} minutes to read, 1 minute to run.*\n\nText")
    nbformat.write(new_notebook(cells=[cell]), tmp_path / "chapters" / "a.ipynb")
    text = "**1 [A](chapters/a.ipynb)**, 0 minutes\n**2 [B](chapters/b.ipynb)**, 5 minutes"
    changed = text.replace("0 minutes", f"{minutes} minutes")
    assert front_page.update(text, tmp_path) == changed

"""The front page: its numbers are those of the chapters."""

import re

import nbformat
import pytest
import yaml
from nbformat.v4 import new_markdown_cell, new_notebook
from support.paths import ROOT

from tools import front_page, poster
from tools.chromium.visits import new_visitor
from tools.figures import hero
from tools.pictographs import pictographs

TEXT = (ROOT / "intro.md").read_text(encoding="utf-8")
GLUED = re.findall(r"\{glue:text\}`([^`:]+)::(\w+):s`", TEXT)


def glued(path):
    """Return what a notebook's stored outputs glue: ``{name: text}``."""
    outputs = [o for c in nbformat.read(ROOT / path, 4).cells for o in c.get("outputs", [])]
    records = [o for o in outputs if "scrapbook" in o.get("metadata", {})]
    key = "application/papermill.record/text/plain"
    return {o.metadata.scrapbook.name: o.data[key].strip("'") for o in records}


@pytest.fixture(scope="module")
def runs():
    return hero.runs()


def test_numbers_come_from_chapters():
    assert GLUED
    for path, name in GLUED:
        assert name in glued(path), f"{path} glues no {name}: the front page shows nothing"
    typed = re.findall(r"\d[\d.,]* times", TEXT)
    assert typed == [], "a number that no chapter computes"


@pytest.mark.long
def test_the_first_sentences_are_what_the_runs_show(runs):
    assert "training takes *twice as long*" in TEXT
    assert 1.9 < runs["lenet", 1].rate / runs["lenet", 2].rate < 2.1
    assert "seven times as fast" in TEXT
    assert 6.7 < runs["language", 8].rate / runs["language", 1].rate < 7.3


@pytest.mark.long
def test_the_stored_runs_are_those_of_the_simulator(runs):
    assert hero.page(runs) == (poster.FOLDER / "runs.html").read_text(encoding="utf-8")
    for (model, count), run in runs.items():
        assert len([k for k in run.timeline.lanes() if k[1] == "compute"]) == count, model
        assert run.timeline.end - run.timeline.start == pytest.approx(run.seconds)
    assert runs["lenet", 2].seconds > runs["lenet", 1].seconds
    alone = runs["language", 1]
    assert "7 times as many tokens" in hero.says("language", 8, runs["language", 8], alone)
    assert "twice as long" in hero.says("lenet", 2, runs["lenet", 2], runs["lenet", 1])


def test_a_number_of_the_front_page_has_two_digits():
    assert [hero.round_off(x) for x in (7.04, 0.456, 90_432.1, 14.6)] == [
        "7",
        "0.46",
        "90,000",
        "15",
    ]
    said = (poster.FOLDER / "runs.html").read_text(encoding="utf-8")
    numbers = re.findall(r"\d[\d.,]*", " ".join(re.findall(r'data-(?:says|rate)="([^"]*)"', said)))
    assert numbers
    assert all(len(re.sub(r"[.,]|^0\.", "", n).rstrip("0")) <= 2 for n in numbers), numbers


def test_what_was_compared_with_measurements_is_that_of_the_record():
    (line,) = re.findall(front_page.TRUST, TEXT)
    assert line == front_page.compared(), "python -m tools.front_page writes it"
    page = (ROOT / "chapters/how-far-to-trust-the-clock.md").read_text(encoding="utf-8")
    total, steps, share = re.match(r"(\d+) .* half of (\d+) .* within (\d+%)", line).groups()
    assert f"predicts {total} of those" in page
    assert re.search(rf"Half of the {steps} steps that ran as programs are within {share} of", page)


CLICK = "document.querySelector('.hero [data-{}=\"{}\"]').click()"
SHOWN = "document.querySelector('.hero-says').textContent"
BARS = "[...document.querySelectorAll('.hero-bars b')].map(b => b.textContent)"


def test_a_reader_chooses_a_run(built, tab, runs):
    visitor = new_visitor(tab)
    visitor.visit((built / "intro.html").as_uri())
    assert visitor.ask(SHOWN) == hero.says("lenet", 2, runs["lenet", 2], runs["lenet", 1])
    rates = [f"{hero.round_off(runs['lenet', count].rate)} images/s" for count in (1, 2)]
    assert visitor.ask(BARS) == [*rates, "?"], "it opens on the contradiction"
    assert visitor.ask("document.querySelectorAll('.hero .d2l-tl-live').length") == 1
    assert visitor.ask("document.querySelector('img[src*=timeline]').offsetWidth") == 0
    for kind, value in (("model", "language"), ("count", "1"), ("count", "8")):
        visitor.ask(CLICK.format(kind, value))
    assert visitor.ask(SHOWN) == hero.says("language", 8, runs["language", 8], runs["language", 1])
    rates = [f"{hero.round_off(runs['language', count].rate)} tokens/s" for count in hero.COUNTS]
    assert visitor.ask(BARS) == rates
    lanes = "document.querySelectorAll('.hero rect.d2l-tl-lane').length"
    assert visitor.ask(lanes) == len(runs["language", 8].timeline.lanes())
    assert visitor.said() == []


@pytest.mark.process
def test_the_page_shows_a_picture_without_scripts(built):
    page = (built / "intro.html").read_text(encoding="utf-8")
    assert re.search(r'<div class="hero" hidden', page)
    assert re.search(r'<img alt="A timeline of one training step[^>]*timeline.svg', page)


def test_minutes_are_those_of_the_chapters():
    assert front_page.update(TEXT) == TEXT, "python -m tools.front_page writes them"


def test_every_chapter_has_a_card_with_its_number_picture_and_finding():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [
        entry["file"] for part in toc["parts"] if "numbered" in part for entry in part["chapters"]
    ]
    cards = re.findall(r":::\{grid-item-card\}\n(!.*?)\n:::", TEXT, re.DOTALL)
    assert len(cards) == len(chapters)
    for number, (card, chapter) in enumerate(zip(cards, chapters, strict=True), 1):
        title = nbformat.read(ROOT / f"{chapter}.ipynb", 4).cells[0].source.splitlines()[0][2:]
        assert f"**{number} [{title}]({chapter}.ipynb)**, " in card
        words = re.sub(r"\{glue:text\}`[^`]*`", "N", card.rpartition("\n\n")[2])
        assert re.fullmatch(r"[^.!?]+[.?]", words), f"{title}: one sentence"
        assert card.count("{glue") == card.count(f"{{glue:text}}`{chapter}.ipynb::")
        assert card.count("{glue") <= 1
        assert (ROOT / re.match(r"!\[\]\((.*)\)", card)[1]).exists()


def test_the_timeline_is_what_the_simulator_says(runs):
    timeline = runs["language", poster.RANKS].whole
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

"""The pages as a reader meets them: how long, what is folded, what is said in its place."""

import ast
import re
from collections import Counter
from copy import deepcopy
from functools import cache

import matplotlib
import nbformat
import yaml
from support.each import each
from support.paths import ROOT

from simgpu.units import BLUE, GREEN, MUTED, ORANGE, PURPLE, SKY, VERMILION
from tools import notebooks
from tools.words.lines import exercise_lines, time_line

PAGES = sorted((ROOT / "chapters").glob("*.ipynb"))
PARTS = yaml.safe_load((ROOT / "_toc.yml").read_text())["parts"]
TEACHING = [part for part in PARTS if "numbered" in part]
MOST_CELLS, MOST_FOLDS, LONGEST_OUTPUT = 75, 15, 12
FOLDED = {"hide-cell", "remove-cell"}
CORE = [ROOT / f"{entry['file']}.ipynb" for part in TEACHING for entry in part["chapters"]]

LAYERED = [path for path in CORE if "## Going deeper" in path.read_text(encoding="utf-8")]


def each_page(pages=PAGES):
    return each(pages, lambda path: path.stem)


@cache
def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def headings(path):
    text = "\n".join(c.source for c in read(path).cells if c.cell_type == "markdown")
    return re.findall(r"^## (.+)$", text, re.MULTILINE)


def seen_code(cell):
    hidden = notebooks.tags(cell) & {*FOLDED, "hide-input", "remove-input"}
    return "" if hidden else cell.source


def seen_outputs(cell):
    hidden = notebooks.tags(cell) & {*FOLDED, "hide-output", "remove-output"}
    return [] if hidden else [o for o in cell.outputs if "scrapbook" not in o.get("metadata", {})]


def printed(cell):
    """Return the lines of text that a page shows below a cell; pictures have none."""
    texts = []
    for output in seen_outputs(cell):
        data = output.get("data", {})
        if not {"text/html", "image/png", "image/svg+xml"} & set(data):
            texts.append(output.get("text") or data.get("text/plain", ""))
    return [line for text in texts for line in text.splitlines() if line.strip()]


@each_page(CORE)
def test_chapter_is_short_enough_to_be_read(path):
    code = code_cells(path)
    text = [cell for cell in read(path).cells if cell.cell_type == "markdown"]
    assert len(text) + sum(bool(seen_code(c) or seen_outputs(c)) for c in code) <= MOST_CELLS
    assert max(len(printed(cell)) for cell in code) <= LONGEST_OUTPUT


@each_page(CORE)
def test_chapter_opens_with_a_puzzle_and_ends_with_exercises(path):
    first, *_ = read(path).cells
    opening = first.source.partition("\n## ")[0]
    assert len(opening.split()) >= 30, "a puzzle comes before the first heading"
    assert headings(path)[0] == "Overview"
    assert headings(path)[-2:] == ["Summary", "Exercises"]
    text = "\n".join(c.source for c in read(path).cells if c.cell_type == "markdown")
    assert re.search(r"^:::+\{dropdown\} Prerequisites$", text, re.MULTILINE)


@each_page(CORE)
def test_overview_is_four_lines_at_most(path):
    text = "\n".join(c.source for c in read(path).cells if c.cell_type == "markdown")
    overview = re.search(r"^## Overview\n(.*?)(?=^:::|^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]
    assert 1 <= len([line for line in overview.splitlines() if line.strip()]) <= 4


@each_page()
def test_machinery_is_not_seen(path):
    cells = code_cells(path)
    assert not any("glue(" in seen_code(cell) for cell in cells)
    first = cells[0]
    assert first.source.startswith("# Imports\n"), "the imports come first"
    assert "hide-input" in notebooks.tags(first) or "hide-cell" in notebooks.tags(first)


@each_page()
def test_a_folded_cell_says_what_is_in_it(path):
    for cell in code_cells(path):
        if notebooks.tags(cell) & {"hide-cell", "hide-input"}:
            assert cell.source.startswith("# "), cell.source[:80]
        if "hide-cell" in notebooks.tags(cell):
            kinds = set(notebooks.KINDS) - {"picture"}
            assert notebooks.tags(cell) & kinds, cell.source[:80]


@each_page()
def test_a_check_is_folded(path):
    for cell in code_cells(path):
        body = ast.parse(re.sub(r"^[%!].*$", "pass", cell.source, flags=re.MULTILINE)).body
        if all(isinstance(node, ast.Assert) for node in body):
            assert notebooks.tags(cell) & FOLDED, f"only checks, and seen: {cell.source[:80]}"


@each_page()
def test_a_plot_says_what_it_shows_to_those_who_cannot_see_it(path):
    for cell in code_cells(path):
        if any("image/png" in output.get("data", {}) for output in cell.outputs):
            image = cell.metadata.get("mystnb", {}).get("image", {})
            assert len(image.get("alt", "")) > 40, f"no alt text in metadata: {cell.source[:80]}"


@each_page()
def test_a_section_has_one_banner_at_most(path):
    banners, data = 0, 0
    for cell in read(path).cells:
        if cell.cell_type == "markdown":
            banners *= not re.search(r"^## ", cell.source, re.MULTILINE)
            continue
        lines = printed(cell) if cell.cell_type == "code" else []
        banners += sum(bool(re.match(r"gpus\(\d+\): ", line)) for line in lines)
        data += sum(line.startswith("data: ") for line in lines)
        assert banners <= 1, f"the second banner of a section: {cell.source[:80]}"
    assert data <= 1, "one line about the data is enough"


@each_page()
def test_every_exercise_has_one_folded_solution(path):
    text = "\n".join(cell.source for cell in read(path).cells)
    exercises = re.findall(r"^### Exercise (\d+)", text, re.MULTILINE)
    assert exercises == [str(n + 1) for n in range(len(exercises))]
    solutions = [c for c in code_cells(path) if "solution" in notebooks.tags(c)]
    assert len(solutions) == len(exercises)


@each_page()
def test_time_to_read_stands_under_the_title(path):
    notebook = deepcopy(read(path))
    stored = notebook.cells[0].source
    line = time_line(stored)
    assert line
    assert line["run"], "how long it runs: python -m tools.notebooks --run"
    notebooks.update_time_line(notebook)
    assert notebook.cells[0].source == stored, "python -m tools.notebooks"


def test_plots_have_the_colours_of_the_figures():
    style = matplotlib.rc_params_from_file(ROOT / "chapters" / "matplotlibrc")
    colours = {c["color"] for c in style["axes.prop_cycle"]}
    assert colours == {BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY}
    assert style["axes.edgecolor"] == MUTED


@each_page(LAYERED)
def test_exercises_say_their_kind_difficulty_and_minutes(path):
    text = "\n".join(c.source for c in read(path).cells if c.cell_type == "markdown")
    exercises = re.split(r"^### Exercise \d+:", text, flags=re.MULTILINE)[1:]
    lines = [exercise_lines(e.split("\n", 3)[2]) for e in exercises]
    assert all(lines), "the kind, how hard, and how many minutes, under each heading"
    assert 5 <= len(exercises) <= 10
    kinds = Counter(kind for ((kind, *_),) in lines)
    assert min(kinds["On paper"], kinds["Code with a checker"], kinds["On your own job"]) >= 1


def names_of(source):
    """Return the names that a cell defines, and those that it uses."""
    defined, used = set(), set()
    for node in ast.walk(ast.parse(re.sub(r"^[%!].*$", "pass", source, flags=re.MULTILINE))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.alias):
            defined.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.arg):
            defined.add(node.arg)
        elif isinstance(node, ast.Name):
            (defined if isinstance(node.ctx, ast.Store) else used).add(node.id)
    return defined, used


@each_page(LAYERED)
def test_code_in_sight_uses_no_name_that_only_a_fold_defines(path):
    seen, folded = set(), set()
    for cell in code_cells(path):
        defined, used = names_of(cell.source)
        if "imports" in notebooks.tags(cell):
            seen |= defined
        elif not seen_code(cell):
            folded |= defined
        else:
            seen |= defined
            assert not (used & folded) - seen, cell.source[:80]


@each_page(LAYERED)
def test_few_cells_are_folded(path):
    folds = [
        cell for cell in code_cells(path)
        if notebooks.tags(cell) & {"hide-cell", "hide-input"}
        and not notebooks.tags(cell) & {"solution", "imports"}
    ]  # fmt: skip
    assert len(folds) <= MOST_FOLDS

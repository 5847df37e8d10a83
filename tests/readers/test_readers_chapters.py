"""The readers' notebooks of all pages: nothing left of MyST, pictures, room for exercises."""

import ast
import builtins
import itertools
import json
import posixpath
import re

import nbformat
import pytest
from support.each import each
from support.paths import ROOT

from tools import notebooks
from tools.readers import build, pictures
from tools.readers.book import Book, page_numbers
from tools.readers.covered import without_answers
from tools.readers.numbers import without_numbers

pytestmark = pytest.mark.slow

NAMES = list(page_numbers(ROOT))
MARKUP = re.compile(
    r"\{(?:glue|cite|numref|ref|eq|doc|math|download)[\w:]*\}|^\s*:::|^\s*```\{|^\([\w-]+\)=", re.M
)
HIDDEN = {"hide-input", "hide-cell", "remove-cell", "remove-input"}
CODE = re.compile(r"^(```+).*?^\1\s*$|(`+)(?!`).+?(?<!`)\2(?!`)", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def pages():
    """Build all pages once, timelines from those that were drawn before."""
    book = Book()
    return {page.page: page for page in build.build_all(book, ROOT / "_build" / "pictures")}


def sources(page, kind):
    return [cell.source for cell in page.notebook.cells if cell.cell_type == kind]


@each(NAMES)
def test_the_notebook_is_valid(name, pages):
    nbformat.validate(pages[name].notebook)
    assert json.loads(pages[name].content)["nbformat"] == 4


@each(NAMES)
def test_nothing_is_left_of_the_books_markup(name, pages):
    for source in sources(pages[name], "markdown"):
        left = MARKUP.search(CODE.sub("", source))
        assert not left, f"{left[0]!r} in {source[:200]}"


@each(NAMES)
def test_every_name_that_a_cell_uses_is_bound_in_the_notebook(name, pages):
    used, bound = set(), {*dir(builtins), "__name__", "display"}
    for source in sources(pages[name], "code"):
        plain = re.sub(r"^[%!].*$", "pass", source, flags=re.MULTILINE)
        for node in ast.walk(ast.parse(plain)):
            if isinstance(node, ast.Name):
                (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                bound.add(node.name)
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                bound |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ExceptHandler) and node.name:
                bound.add(node.name)
    assert used <= bound, f"not defined: {sorted(used - bound)}"


@pytest.mark.parametrize("left", ["a {glue:text}`b`", "{cite:p}`a`", "x\n:::{note}", "(a)=", ":::"])
def test_markup_that_is_left_would_be_found(left):
    assert MARKUP.search(CODE.sub("", f"a `{{cite}}` b\n```\n{{eq}}\n```\n\n{left}\nb"))


@each(NAMES)
def test_every_picture_is_beside_the_notebook_and_every_link_leads_somewhere(name, pages):
    page, notebooks = pages[name], {page.file for page in pages.values()}
    folder = posixpath.dirname(page.file)
    text = "\n".join(CODE.sub("", source) for source in sources(page, "markdown"))
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not re.match(r"(https?|mailto|data):", target):
            place = posixpath.normpath(posixpath.join(folder, target))
            assert place in notebooks | set(page.placed), target


def test_notebooks_are_in_reading_order_and_the_rest_is_in_a_folder(pages):
    files = [page.file for page in pages.values()]
    assert files[:3] == ["00-intro.ipynb", "01-devices.ipynb", "02-auto-parallelism.ipynb"]
    chapters = [file for file in files if "/" not in file]
    assert chapters == sorted(chapters) == files[: len(chapters)]
    assert len(set(files)) == len(files)
    assert all(re.fullmatch(r"reference/[a-z-]+\.ipynb", file) for file in files[len(chapters) :])


def test_the_title_of_a_chapter_has_its_number(pages):
    for page in pages.values():
        number = re.match(r"0?([1-9]\d*)-", page.file)
        title = page.notebook.cells[0].source
        assert bool(number) == bool(re.match(r"# \d", title))
        assert not number or title.startswith(f"# {number[1]}. ")


@each(NAMES)
def test_every_timeline_has_a_picture(name, pages):
    for cell in pages[name].notebook.cells:
        for output in cell.get("outputs", []):
            html = output.get("data", {}).get("text/html", "")
            assert not pictures.is_timeline(html), "a viewer that trusts nothing shows debris"
            assert "<svg" not in html or "<img" in html
            if "d2l-timeline" in html:
                assert output.data["image/png"]
                assert "data:image/png;base64," in html


def test_timelines_were_looked_at(pages):
    drawn = [
        output
        for page in pages.values()
        for cell in page.notebook.cells
        for output in cell.get("outputs", [])
        if "d2l-timeline" in output.get("data", {}).get("text/html", "")
    ]
    assert len(drawn) >= 5


def exercises(page):
    """Yield, for each exercise, the cells from its heading to the next heading."""
    cells = page.notebook.cells
    starts = [n for n, c in enumerate(cells) if re.match("#{1,3} ", c.source)]
    for start, end in zip(starts, [*starts[1:], len(cells)], strict=True):
        if cells[start].source.startswith("### Exercise"):
            yield cells[start + 1 : end]


@each(NAMES)
def test_every_exercise_has_an_empty_cell_and_its_solution_is_folded(name, pages):
    page = pages[name]
    text = "\n".join(sources(page, "markdown"))
    found = list(exercises(page))
    assert len(found) == len(re.findall(r"^### Exercise", text, re.MULTILINE))
    for cells in found:
        code = [cell for cell in cells if cell.cell_type == "code"]
        folded = [cell.metadata.get("jupyter", {}).get("source_hidden", False) for cell in code]
        first = folded.index(True) if True in folded else len(code)
        assert [cell.source for cell in code[:first]].count("") == 1, "one of one's own, above"
        assert all(folded[first:])
        assert all(c.metadata.jupyter.get("outputs_hidden") for c in code[first:] if c.outputs)


@each(NAMES)
def test_no_cell_needs_the_books_tools(name, pages):
    assert not any("myst_nb" in source for source in sources(pages[name], "code"))


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
def test_scaffolding_is_folded_as_on_the_page(name, pages):
    source = Book().pages[name].notebook
    source.cells = without_numbers(without_answers(source.cells))
    tagged = [bool(HIDDEN & notebooks.tags(cell)) for cell in code_before_exercises(source)]
    own = code_before_exercises(pages[name].notebook)
    assert [c.metadata.get("jupyter", {}).get("source_hidden", False) for c in own] == tagged
    checks = sum("check" in notebooks.tags(cell) for cell in source.cells)
    assert sum(s.startswith("*Checked: ") for s in sources(pages[name], "markdown")) == checks


def code_before_exercises(notebook):
    shown = itertools.takewhile(lambda cell: "## Exercises" not in cell.source, notebook.cells)
    return [cell for cell in shown if cell.cell_type == "code"]

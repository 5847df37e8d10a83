"""The normal form of notebooks: reached in one step, and noticed when it is left."""

import copy

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import notebooks


def stream(text, name="stdout"):
    return new_output("stream", name=name, text=text)


@pytest.fixture
def messy():
    cell = new_code_cell("x = 1  \nx", execution_count=17, id="abc")
    cell.metadata = {"tags": ["b", "a"], "execution": {"iopub.status.busy": "2026-01-01"}}
    cell.outputs = [stream("a"), stream("b\n"), stream("c", "stderr"), stream("d")]
    cell.outputs.append(new_output("execute_result", {"text/plain": "1"}, execution_count=17))
    notebook = new_notebook(cells=[new_markdown_cell("# A"), new_code_cell("  "), cell])
    notebook.metadata = {"kernelspec": {"name": "my-env", "display_name": "x"}, "widgets": {}}
    return notebook


def test_normal_form_fixes_counts_metadata_and_streams(messy):
    notebook = notebooks.normalise(messy)
    assert len(notebook.cells) == 2
    code = notebook.cells[1]
    assert code.source == "x = 1\nx"
    assert code.metadata == {"tags": ["a", "b"]}
    assert code.execution_count == code.outputs[-1].execution_count == 1
    assert [o.get("text") for o in code.outputs] == ["ab\n", "c", "d", None]
    assert notebook.metadata.kernelspec.name == "python3"


def test_what_a_plot_shows_is_kept():
    cell = new_code_cell("# How this picture is drawn\nplot()")
    cell.metadata = {"tags": ["hide-input"], "mystnb": {"image": {"alt": "A line.", "width": "9"}}}
    (kept,) = notebooks.normalise(new_notebook(cells=[cell])).cells
    assert kept.metadata.mystnb.image == {"alt": "A line."}
    assert kept.metadata.mystnb.code_prompt_show == "How this picture is drawn"


def test_normal_form_is_reached_in_one_step_and_valid(messy):
    once = notebooks.normalise(copy.deepcopy(messy))
    nbformat.validate(once)
    assert notebooks.normalise(copy.deepcopy(once)) == once


def test_cell_that_was_never_run_keeps_no_count():
    notebook = notebooks.normalise(new_notebook(cells=[new_code_cell("1 + 1")]))
    assert notebook.cells[0].execution_count is None


def test_check_reports_and_leaves_the_file_alone(messy, tmp_path, capsys):
    path = tmp_path / "messy.ipynb"
    nbformat.write(messy, path)
    before = path.read_bytes()
    assert notebooks.main(["--check", str(path)]) == 1
    assert path.read_bytes() == before
    assert "not in normal form" in capsys.readouterr().out
    assert notebooks.main([str(path)]) == 0
    assert notebooks.main(["--check", str(path)]) == 0


@pytest.mark.process
def test_failing_notebook_is_not_overwritten(tmp_path):
    from nbclient.exceptions import CellExecutionError

    path = tmp_path / "fails.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("1 / 0")]), path)
    before = path.read_bytes()
    with pytest.raises(CellExecutionError):
        notebooks.main(["--run", str(path)])
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["fails.ipynb"]


# The line under the title.


def updated(first, run=None):
    cells = [
        new_markdown_cell(first),
        new_markdown_cell("word " * 166),
        new_code_cell("x = 1 " * 34),
    ]
    notebook = new_notebook(cells=cells)
    notebooks.update_time_line(notebook, run)
    return notebook.cells[0].source


@pytest.mark.parametrize(
    ("words", "line"), [(0, "1 minute"), (130, "1 minute"), (131, "2 minutes")]
)
def test_a_minute_is_130_words(words, line):
    notebook = new_notebook(cells=[new_markdown_cell("# Title\n\n" + "word " * words)])
    notebooks.update_time_line(notebook)
    assert notebook.cells[0].source.startswith(f"# Title\n\n*{line} to read.*")


def test_the_line_comes_under_the_title():
    assert updated("# Title\nHook.") == "# Title\n\n*3 minutes to read.*\n\nHook."
    assert updated("# Title") == "# Title\n\n*3 minutes to read.*"
    assert updated("# Title", run=1) == "# Title\n\n*3 minutes to read, 1 minute to run.*"


def test_minutes_to_run_stay_until_it_has_run_again():
    old = "# Title\n\n*17 minutes to read, 4 minutes to run.*\n\nHook."
    assert updated(old) == "# Title\n\n*3 minutes to read, 4 minutes to run.*\n\nHook."
    assert updated(old, run=1) == "# Title\n\n*3 minutes to read, 1 minute to run.*\n\nHook."


def test_the_core_the_whole_and_the_exercises_have_minutes_of_their_own():
    deeper = ["## Going deeper", "word " * 257]
    parts = ["# Title", "word " * 510, *deeper, "## Summary", "word " * 137]
    exercise = "### Exercise 1: A\n\n*On paper, easy, 5 minutes.*\n\n" + "word " * 900
    other = "### Exercise 2: B\n\n*On your own job, hard, 30 minutes.*"
    cells = [new_markdown_cell(part) for part in [*parts, "## Exercises", exercise, other]]
    hidden = new_code_cell("x = 1 " * 999, metadata={"tags": ["hide-cell"]})
    notebook = new_notebook(cells=[*cells[:3], hidden, *cells[3:]])
    line = "*5 minutes to read the core, 7 to read all, 35 for the exercises, 2 minutes to run.*"
    for _ in range(2):  # a line that is right stays
        notebooks.update_time_line(notebook, run=2)
        assert notebook.cells[0].source == f"# Title\n\n{line}"


def test_a_line_that_is_right_stays():
    once = updated("# Title\n\nHook.", run=2)
    assert updated(once) == once


def test_a_page_without_a_title_gets_no_line():
    assert updated("No title") == "No title"
    assert updated("## A section") == "## A section"
    imports = new_notebook(cells=[new_code_cell("# Imports")])
    notebooks.update_time_line(imports)
    assert imports.cells[0].source == "# Imports"


# What stands for a folded cell.


def code(source, tags=()):
    cell = new_code_cell(source)
    cell.metadata["tags"] = list(tags)
    return cell


def normal(*cells):
    notebook = notebooks.normalise(new_notebook(cells=[copy.deepcopy(cell) for cell in cells]))
    nbformat.validate(notebook)
    return notebook


def prompt(cell):
    (cell,) = normal(cell).cells
    texts = cell.metadata.get("mystnb", {})
    assert set(texts) in ({"code_prompt_hide", "code_prompt_show"}, set())
    assert len(set(texts.values())) <= 1, "open and closed it is the same cell"
    return next(iter(texts.values()), None)


@pytest.mark.parametrize("tag", ["hide-cell", "hide-input"])
def test_the_first_comment_of_a_folded_cell_is_its_prompt(tag):
    cell = code("# Checked: both take as long.\n# For each GPU.\nassert a == b", tags=[tag])
    assert prompt(cell) == "Checked: both take as long."


@pytest.mark.parametrize(
    "cell",
    [
        code("# Seen anyway\nx = 1"),
        code("# Not on the page\nx = 1", tags=["remove-cell"]),
        code("# Code is seen\nx = 1", tags=["hide-output"]),
        code("x = 1  # no comment line", tags=["hide-cell"]),
        code("x = 1\n# too late", tags=["hide-cell"]),
        code("#!no prompt", tags=["hide-cell"]),
        new_markdown_cell("# A title"),
    ],
)
def test_other_cells_have_no_prompt(cell):
    assert prompt(cell) is None


def test_a_prompt_follows_its_comment():
    cell = code("# Old\nx = 1", tags=["hide-cell"])
    notebook = normal(cell)
    notebook.cells[0].source = "# New\nx = 1"
    assert prompt(notebook.cells[0]) == "New"
    notebook.cells[0].metadata["tags"] = []
    assert normal(notebook.cells[0]).cells[0].metadata == {}

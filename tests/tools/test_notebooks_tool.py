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


def test_failing_notebook_is_not_overwritten(tmp_path):
    from nbclient.exceptions import CellExecutionError

    path = tmp_path / "fails.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("1 / 0")]), path)
    before = path.read_bytes()
    with pytest.raises(CellExecutionError):
        notebooks.main(["--run", str(path)])
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["fails.ipynb"]

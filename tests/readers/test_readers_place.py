"""What a reader has written is never lost: not by a new version, not by make clean."""

import json

import nbformat
import pytest
from nbformat.sign import NotebookNotary
from nbformat.v4 import new_code_cell, new_notebook

from tools import clean
from tools.readers import place
from tools.readers.build import Built


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "source.py"
    path.write_text("print(1)\n")
    return path


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "notebooks"


def page(source, script):
    own = new_notebook(cells=[new_code_cell(source, id="a")])
    return Built("one.ipynb", "chapters/one", own, {"scripts/run.py": script})


def source(path):
    return nbformat.read(path, as_version=4).cells[0].source


def edit(path, new):
    own = nbformat.read(path, as_version=4)
    own.cells[0].source = new
    nbformat.write(own, path)


def names(folder):
    return sorted(path.name for path in folder.glob("*.ipynb"))


def test_what_nobody_changed_is_replaced(folder, script, capsys):
    assert place.place_all(folder, [page("old", script)]) == ["one.ipynb"]
    script.write_text("print(2)\n")
    assert place.place_all(folder, [page("new", script)]) == ["one.ipynb"]
    assert source(folder / "one.ipynb") == "new"
    assert (folder / "scripts" / "run.py").read_text() == "print(2)\n"
    assert names(folder) == ["one.ipynb"]
    assert capsys.readouterr().out == ""


def test_changes_are_kept_and_the_new_version_comes_beside(folder, script, capsys):
    place.place_all(folder, [page("old", script)])
    edit(folder / "one.ipynb", "mine")
    assert place.place_all(folder, [page("new", script)]) == ["one-2.ipynb"]
    assert source(folder / "one.ipynb") == "mine"
    assert source(folder / "one-2.ipynb") == "new"
    assert "one.ipynb has your changes and is kept; its new version is one-2.ipynb" in (
        capsys.readouterr().out
    )
    edit(folder / "one-2.ipynb", "mine, too")
    place.place_all(folder, [page("newest", script)])
    assert [source(folder / name) for name in names(folder)] == ["mine, too", "newest", "mine"]


def test_changes_to_the_newest_version_get_no_second_one(folder, script, capsys):
    place.place_all(folder, [page("same", script)])
    edit(folder / "one.ipynb", "mine")
    assert place.place_all(folder, [page("same", script)]) == ["one.ipynb"]
    assert names(folder) == ["one.ipynb"]
    assert source(folder / "one.ipynb") == "mine"
    assert "one.ipynb has your changes and is kept" in capsys.readouterr().out


def test_outputs_of_ones_own_run_are_changes(folder, script):
    place.place_all(folder, [page("1 + 1", script)])
    own = nbformat.read(folder / "one.ipynb", as_version=4)
    own.cells[0].outputs = [nbformat.v4.new_output("stream", text="2\n")]
    nbformat.write(own, folder / "one.ipynb")
    assert place.changed(folder) == ["one.ipynb"]


def test_what_a_front_end_saves_of_itself_is_no_change(folder, script):
    place.place_all(folder, [page("line 1\nline 2", script)])
    path = folder / "one.ipynb"
    data = json.loads(path.read_text())
    data["metadata"]["language_info"] = {"name": "python", "version": "3.12"}
    data["cells"][0]["source"] = "line 1\nline 2"
    data["cells"][0]["metadata"] = {"editable": True}
    path.write_text(json.dumps(data))
    assert place.changed(folder) == []


def test_a_script_that_was_changed_is_kept(folder, script, capsys):
    place.place_all(folder, [page("", script)])
    (folder / "scripts" / "run.py").write_text("mine\n")
    place.place_all(folder, [page("", script)])
    assert (folder / "scripts" / "run.py").read_text() == "mine\n"
    assert "scripts/run.py has your changes and is kept" in capsys.readouterr().out


def test_without_a_record_nothing_is_taken_for_unchanged(folder, script):
    folder.mkdir()
    nbformat.write(new_notebook(cells=[new_code_cell("mine")]), folder / "one.ipynb")
    assert place.place_all(folder, [page("new", script)]) == ["one-2.ipynb"]
    assert source(folder / "one.ipynb") == "mine"


def test_what_equals_the_new_version_is_nobodys_change(folder, script, capsys):
    place.place_all(folder, [page("same", script)])
    (folder / place.RECORD).unlink()
    assert place.place_all(folder, [page("same", script)]) == ["one.ipynb"]
    assert place.changed(folder) == []
    assert capsys.readouterr().out == ""


def test_a_file_that_is_no_notebook_any_more_is_kept(folder, script):
    place.place_all(folder, [page("old", script)])
    (folder / "one.ipynb").write_text("{")
    assert place.place_all(folder, [page("new", script)]) == ["one-2.ipynb"]
    assert (folder / "one.ipynb").read_text() == "{"


def test_what_was_deleted_comes_back(folder, script):
    place.place_all(folder, [page("old", script)])
    (folder / "one.ipynb").unlink()
    assert place.place_all(folder, [page("old", script)]) == ["one.ipynb"]
    assert place.changed(folder) == []


def test_what_has_another_place_now_leaves_the_old_one_unless_it_was_changed(folder, script):
    for name in ("one", "two"):
        own = page(name, script)
        own.file = f"{name}.ipynb"
        place.place_all(folder, [own])
        edit(folder / "one.ipynb", "mine")
    moved = page("new", script)
    moved.file = "reference/one.ipynb"
    assert place.place_all(folder, [moved]) == ["reference/one.ipynb"]
    assert names(folder) == ["one.ipynb"]
    assert source(folder / "reference" / "one.ipynb") == "new"
    assert (folder / "reference" / "scripts" / "run.py").exists()
    assert not (folder / "scripts" / "run.py").exists()
    assert place.changed(folder) == ["one.ipynb"]
    edit(folder / "reference" / "one.ipynb", "mine, too")
    assert place.changed(folder) == ["one.ipynb", "reference/one.ipynb"]


def test_only_what_was_built_is_trusted(folder, script, tmp_path, monkeypatch):
    for name in ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    folder.mkdir()
    place.put(folder, "built.ipynb", page("1", script).content)
    place.put(folder, "edited.ipynb", page("2", script).content)
    edit(folder / "edited.ipynb", "import os")
    place.trust(folder, ["built.ipynb", "edited.ipynb"])
    notary = NotebookNotary()
    signed = [notary.check_signature(nbformat.read(folder / n, 4)) for n in names(folder)]
    assert signed == [True, False]


def test_clean_keeps_a_readers_work(folder, script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    built = tmp_path / clean.NOTEBOOKS
    place.place_all(built, [page("old", script)])
    (tmp_path / "_build" / "html").mkdir()
    edit(built / "one.ipynb", "mine")
    clean.main()
    assert source(built / "one.ipynb") == "mine"
    assert not (tmp_path / "_build" / "html").exists()
    assert "one.ipynb" in capsys.readouterr().out
    edit(built / "one.ipynb", "old")
    clean.main()
    assert not (tmp_path / "_build").exists()
    clean.main()

"""`make lab` builds notebooks again only if something has changed."""

import os

import pytest
from support.samples import small_book

from tools.readers import __main__ as readers
from tools.readers import place, stamp


@pytest.fixture
def build(tmp_path, monkeypatch, capsys):
    """Return a function that builds a small book's notebooks, and returns what it says."""
    root = small_book.write(tmp_path / "book")
    book = readers.Book(root)
    monkeypatch.setattr(readers, "ROOT", root)
    monkeypatch.setattr(readers, "Book", lambda: book)

    def call(*arguments):
        assert readers.main(["--folder", str(tmp_path / "own"), *arguments]) == 0
        return capsys.readouterr().out

    return call


def test_what_has_not_changed_is_not_built_again(build, tmp_path):
    first = build()
    assert "building them" in first
    again = build()
    assert "nothing has changed" in again
    assert again.splitlines()[-1] == first.splitlines()[-1]


@pytest.mark.parametrize("kind", ["*.ipynb", "_toc.yml"])
def test_a_source_that_changes_is_built_again(build, tmp_path, kind):
    build()
    path = next(iter(sorted((tmp_path / "book").rglob(kind))))
    os.utime(path, (1, 1))
    assert "building them" in build()


def test_a_notebook_that_was_removed_comes_back(build, tmp_path):
    build()
    notebook = next((tmp_path / "own").glob("01-*.ipynb"))
    notebook.unlink()
    assert "building them" in build()
    assert notebook.exists()


def test_what_a_reader_changed_stays(build, tmp_path):
    build()
    notebook = next((tmp_path / "own").glob("01-*.ipynb"))
    notebook.write_text(notebook.read_text().replace('"source"', '"source" '))
    text = notebook.read_text()
    build()
    assert notebook.read_text() == text


def test_a_damaged_stamp_counts_as_none(tmp_path):
    (tmp_path / stamp.STAMP).write_text("{")
    assert stamp.first_if_unchanged(tmp_path, "any") is None
    place.write(tmp_path / stamp.STAMP, b"[]")
    assert stamp.first_if_unchanged(tmp_path, "any") is None

"""The book, built once in a run of the tests."""

import pytest

from tools import build_book


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Build the book into a folder of its own; return its pages."""
    target = tmp_path_factory.mktemp("book")
    assert build_book.build("--path-output", str(target)) == 0
    return target / "_build" / "html"

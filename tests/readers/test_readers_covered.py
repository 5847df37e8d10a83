"""What answers a guess is not in a reader's notebook before the cells are run."""

import pytest
from nbformat.v4 import new_markdown_cell, new_output
from support.paths import ROOT
from support.samples import small_book

from tools.readers import covered

GUESS = "How long?\n\n:::{guess}\n:right: 1\n:checked: a < b\n\n- long\n- short\n:::"
SAID = new_output("stream", name="stdout", text="3\n")


def text(source):
    return new_markdown_cell(source)


def program(source, *tags):
    return small_book.code(source, SAID, tags=tags)


def shown(*cells):
    """Return what is left of the cells after a guess: the outputs, or the text."""
    return [
        cell.get("outputs", cell.source) for cell in covered.without_answers([text(GUESS), *cells])
    ][1:]


def test_outputs_up_to_the_next_text_are_cleared():
    cells = [program("a"), program("# How", "hide-input"), text("Next."), program("b")]
    first, second, _, third = covered.without_answers([text(GUESS), *cells])[1:]
    assert (first.outputs, second.outputs, third.outputs) == ([], [], [SAID])
    assert (first.execution_count, third.execution_count) == (None, 1)
    assert cells[0].outputs == [SAID], "the source stays as it is"


def test_as_many_cells_as_the_guess_says():
    said = text(GUESS.replace(":checked", ":cells: 2\n:checked"))
    glued = program("glue('a', 1)", "remove-cell")  # is not on the page, and does not count
    cells = [program("a"), glued, text("Between."), program("b")]
    assert [c.outputs for c in covered.without_answers([said, *cells]) if "outputs" in c] == [
        *([], [SAID], []),
    ]


def test_a_check_does_not_say_the_answer_in_words_and_stays():
    cells = [
        program("a"),
        program("# Checked: it is long.\nassert a", "hide-cell", "check"),
        text("It is."),
    ]
    after = program("# Said: very long.\nassert b", "hide-cell", "check")
    built = covered.without_answers([text(GUESS), *cells, after])
    assert built[2].source == "# Helper: checks the answer\nassert a"
    assert built[4].source == "# Helper: checks the answer\nassert b"
    assert covered.without_answers([after])[0].source == after.source, "where nothing is asked"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("It is long.", ":::{dropdown} The answer\nIt is long.\n:::\n"),
        ("Long.\n\nBecause.", ":::{dropdown} The answer\nLong.\n:::\n\n\nBecause."),
        ("**Long** it is.", None),
        ("It is $n$.", None),
        ("## A heading", None),
        ("word " * 31, None),
    ],
)
def test_a_verdict_is_folded_and_what_teaches_is_not(source, expected):
    assert shown(program("a"), text(source)) == [[], expected or source]


def test_without_a_guess_all_stays():
    cells = [text("No question."), program("a"), text("It is long.")]
    assert covered.without_answers(cells) == cells


def test_a_verdict_is_as_short_as_on_the_pages():
    script = (ROOT / "assets" / "guess.js").read_text(encoding="utf-8")
    assert f"countWords(element.textContent) <= {covered.SHORT};" in script

"""The cells of readers' notebooks: folded, explained, with room for one's own, timelines drawn."""

import base64
import io
import re

import nbformat
import pytest
from PIL import Image
from support.samples import small_book

from tools.readers import build, cells, numbers, pictures
from tools.readers.book import Book


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    book = Book(small_book.write(tmp_path_factory.mktemp("book")))
    return build.build_page(book, book.pages["chapters/one"])


@pytest.fixture(scope="module")
def built(page):
    nbformat.validate(page.notebook)
    return page.notebook.cells


def find(built, start):
    """Return the number of the one cell that starts so."""
    (number,) = [n for n, cell in enumerate(built) if cell.source.startswith(start)]
    return number


def is_folded(cell):
    return cell.metadata.get("jupyter", {}).get("source_hidden", False)


@pytest.mark.slow
def test_scaffolding_is_folded_everywhere(built):
    for start in ("# Imports", "assert math", "# Solution"):
        cell = built[find(built, start)]
        assert is_folded(cell), start
        assert cell.metadata["cellView"] == "form", "in Colab"
        assert cell.metadata["_kg_hide-input"], "in Kaggle"
    assert not is_folded(built[find(built, "run()")])
    assert built[find(built, "# Solution")].metadata["jupyter"]["outputs_hidden"]
    assert "outputs_hidden" not in built[find(built, "# Imports")].metadata["jupyter"]


def test_what_was_checked_is_said_before_the_folded_cell(built):
    number = find(built, "assert math")
    assert built[number - 1].source == r"*Checked: x is \<2> times \*y\*.*"


def test_words_of_a_check_are_shown_as_they_are():
    assert cells.escaped(" a_b, `a_b[0]` and [c] ") == r"a\_b, `a_b[0]` and \[c\]"


def test_an_exercise_has_an_empty_cell_and_one_folded_solution(built):
    first, second = find(built, "### Exercise 1"), find(built, "### Exercise 2")
    assert built[first - 1].source.startswith("## Exercises"), "a cell of its own"
    kinds = [(c.cell_type, c.source.split("\n")[0]) for c in built[first + 1 : second]]
    assert kinds == [("code", ""), ("code", "# Solution"), ("markdown", "<details>")]
    assert "It could also be `sum`." in built[second - 1].source
    assert built[second + 1].source == "", "without a solution, too"
    empty = [cell for cell in built if not cell.source]
    assert [is_folded(cell) for cell in empty] == [False, False]


def test_what_hands_numbers_to_the_text_is_gone(built):
    code = [cell.source for cell in built if cell.cell_type == "code"]
    assert not any("glue" in source or "myst_nb" in source for source in code)
    assert not any("papermill" in str(cell.get("outputs")) for cell in built)


def program(source, *tags):
    return small_book.code(source, tags=tags)


def test_of_a_cell_for_the_text_only_what_is_needed_later_stays():
    found = numbers.without_numbers(
        [
            program("from myst_nb import glue\nimport math"),
            program("a = 1\nglue('a', a)", "remove-cell"),
            program("b = 2\nglue('b', f'{b:.1f}',\n     display=False)", "remove-cell"),
            program("for x in 1, 2:\n    glue('x', x)\n%time pass"),
            program("for y in 1, 2:\n    c = y\n    glue('y', y)"),
            program("print(b, c)"),
        ]
    )
    assert [cell.source for cell in found] == [
        "import math", "b = 2", "%time pass", "for y in 1, 2:\n    c = y", "print(b, c)",
    ]  # fmt: skip


def test_running_all_goes_on_after_an_expected_error(built):
    assert built[find(built, "1 / 0")].metadata.tags == ["raises-exception"]


def test_the_reader_is_told_whose_numbers_the_text_has(built):
    assert "1 minute to run.* *The numbers in the text are" in built[0].source


def timeline_output(built):
    (output,) = built[find(built, "run()")].outputs
    return output


def test_a_timeline_has_a_picture_for_viewers_that_trust_nothing(built):
    output = timeline_output(built)
    assert {"text/html", "text/plain", "image/png"} == set(output.data)
    picture = base64.b64decode(output.data["image/png"])
    size = output.metadata["image/png"]
    image = Image.open(io.BytesIO(picture))
    assert image.size == (2 * size["width"], 2 * size["height"])
    inside = re.search(r'<img [^>]*src="data:image/png;base64,([^"]+)"', output.data["text/html"])
    assert base64.b64decode(inside[1]) == picture


def test_the_drawing_keeps_what_it_says_under_the_pointer():
    svg, alt, width, height = pictures.document(small_book.timeline())
    assert alt.startswith("Timeline of")
    assert re.findall("<title>", svg) == re.findall("<title>", small_book.timeline())
    for name in ("host", "compute", "matrix product"):
        assert f">{name}" in svg or f" {name}<" in svg, name
    assert width > 600 < 2 * height + 600


@pytest.mark.slow
def test_letters_and_boxes_are_really_drawn():
    """Without a font of our own letters would be missing where the system has none."""
    svg, *_ = pictures.document(small_book.timeline())

    def ink(source):
        image = Image.open(io.BytesIO(pictures.png(source))).convert("L")
        return sum(image.histogram()[:128])

    without_text = re.sub(r"<text.*?</text>", "", svg, flags=re.DOTALL)
    without_boxes = re.sub(r"<rect.*?/>", "", svg)
    assert ink(svg) - ink(without_text) > 2000
    assert ink(svg) - ink(without_boxes) > 500


def test_sizes_in_points_are_drawn_as_browsers_do():
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="30pt" height="15pt"/>'
    assert Image.open(io.BytesIO(pictures.png(svg, zoom=1))).size == (40, 20)


def test_a_timeline_is_drawn_once(tmp_path, monkeypatch):
    html = small_book.timeline()
    once, _ = pictures.static(html, tmp_path)
    monkeypatch.setattr(pictures, "png", None)
    assert pictures.static(html, tmp_path)[0] == once
    with pytest.raises(TypeError):
        pictures.static(html.replace("compute", "elsewhere"), tmp_path)


def test_a_timeline_says_what_its_cell_says_of_it():
    output = nbformat.v4.new_output("display_data", {"text/html": small_book.timeline()})
    says = {"mystnb": {"image": {"alt": 'Lanes "take" turns.'}}}
    html = cells.outputs(output, of_cell=says).data["text/html"]
    assert 'alt="Lanes &quot;take&quot; turns. Timeline of ' in html
    assert 'alt="Timeline of ' in cells.outputs(output).data["text/html"]


def test_other_outputs_are_left_alone():
    table = nbformat.v4.new_output("display_data", {"text/html": "<table></table>"})
    assert cells.outputs(table) == table


@pytest.mark.slow
def test_the_same_source_gives_the_same_notebook(page, tmp_path):
    book = Book(small_book.write(tmp_path))
    again = build.build_page(book, book.pages["chapters/one"])
    assert again.content == page.content

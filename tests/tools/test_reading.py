"""How long a page takes to read: what is counted, what is not, and the line under the title."""

import copy
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import notebooks, reading

PICTURE = {"image/png": "iVBORw0KGgo="}


def markdown(source):
    return new_markdown_cell(source)


def code(source, *outputs, tags=()):
    cell = new_code_cell(source, outputs=list(outputs))
    cell.metadata["tags"] = list(tags)
    return cell


def printed(text):
    return new_output("stream", name="stdout", text=text)


def result(data):
    return new_output("execute_result", data)


def shown(data):
    return new_output("display_data", data)


def measure(*cells):
    return reading.measure(new_notebook(cells=list(cells)))


def seen(*cells):
    """Return what is counted, except the time that follows from it."""
    counts = measure(*cells)
    del counts["minutes"]
    return {name: count for name, count in counts.items() if count}


# Markdown: words and pictures.


def test_words_of_prose():
    assert seen(markdown("# One title\n\nTwo GPUs don't wait.\n")) == {"words": 6, "cells": 1}
    assert seen(markdown("`torch.sum(x)` takes 1.5 ms, *once* -- or 2,000 times")) == {
        "words": 9,
        "cells": 1,
    }


def test_of_a_link_the_text_counts_and_not_the_address():
    assert measure(markdown("See [the chapter](other-chapter-with-long-name.ipynb)."))["words"] == 3


def test_comments_are_not_read():
    assert seen(markdown("% a note for authors")) == {}
    assert measure(markdown("one\n% a note\ntwo"))["words"] == 2


@pytest.mark.parametrize("kind", ["dropdown", "toggle"])
@pytest.mark.parametrize("fence", [":::", "```", "::::"])
def test_what_is_folded_is_not_read(kind, fence):
    folded = f"{fence}{{{kind}}} Prerequisites\n- much to know\n- and more\n{fence}"
    assert seen(markdown(folded)) == {}
    assert measure(markdown(f"before it\n\n{folded}\n\nafter it"))["words"] == 4


def test_two_folded_parts_leave_what_is_between_them():
    folded = ":::{dropdown} More\nhidden words\n:::"
    assert measure(markdown(f"{folded}\n\nbetween them\n\n{folded}"))["words"] == 2


@pytest.mark.parametrize("kind", ["note", "tip", "admonition", "figure"])
def test_what_stands_in_other_fences_is_read(kind):
    fence = f":::{{{kind}}}\n:name: the-label\n:class: wide\nthree short words\n:::"
    assert measure(markdown(fence))["words"] == 3


def test_fences_in_fences():
    inner = ":::{dropdown} Why\nhidden\n:::"
    assert (
        measure(markdown(f"::::{{note}}\nseen first\n\n{inner}\n\nseen last\n::::"))["words"] == 4
    )
    inner = ":::{note}\nalso hidden\n:::"
    assert seen(markdown(f"::::{{dropdown}} Why\n{inner}\n::::")) == {}


def test_a_picture_is_no_words():
    assert seen(markdown("![Two words](ring.svg)\n\ncaption")) == {
        "words": 1,
        "pictures": 1,
        "cells": 1,
    }


def test_the_time_line_itself_takes_no_time():
    assert measure(markdown("# Title\n\n*12 minutes to read, 1 minute to run.*"))["words"] == 1


# Code: lines, outputs, pictures.


def test_lines_of_code_and_of_output():
    cell = code("x = 1\n\nprint(x)\nx", printed("a\n\nb\n"), result({"text/plain": "1"}))
    assert seen(cell) == {"cells": 1, "code lines": 3, "output lines": 3, "longest output": 3}


@pytest.mark.parametrize(
    ("tag", "counts"),
    [
        ("hide-cell", {}),
        ("remove-cell", {}),
        ("hide-input", {"cells": 1, "output lines": 1, "longest output": 1, "pictures": 1}),
        ("remove-input", {"cells": 1, "output lines": 1, "longest output": 1, "pictures": 1}),
        ("hide-output", {"cells": 1, "code lines": 2}),
        ("remove-output", {"cells": 1, "code lines": 2}),
    ],
)
def test_what_a_tag_hides(tag, counts):
    cell = code("draw()\nglue('a', 1)", printed("drawn"), shown(PICTURE), tags=[tag, "other"])
    glued = {"glue": 1} if "code lines" in counts else {}
    assert seen(cell) == counts | glued


@pytest.mark.parametrize("kind", ["image/png", "image/svg+xml", "text/html"])
def test_a_picture_is_one_however_else_it_can_be_shown(kind):
    cell = code("draw()", shown({kind: "...", "text/plain": "<Figure>"}))
    assert seen(cell) == {"cells": 1, "code lines": 1, "pictures": 1}


def test_what_is_glued_is_shown_elsewhere():
    glued = shown({"application/papermill.record/text/plain": "'43.5'"})
    assert seen(code("answer()", glued)) == {"cells": 1, "code lines": 1}
    assert seen(code("answer()", glued, tags=["hide-input"])) == {}


def test_calls_of_glue_count_where_they_are_seen():
    assert measure(code("glue('a', 1)\nglue('b', 2)\nunglue(3)"))["glue"] == 2
    assert measure(code("glue('a', 1)", tags=["hide-cell"]))["glue"] == 0


def test_the_longest_output_counts_in_exercises_too():
    long = code("table()", printed("row\n" * 14))
    counts = measure(code("x", printed("1")), markdown("## Exercises"), long)
    assert counts["longest output"] == 14
    assert counts["output lines"] == 1


def test_exercises_are_cells_and_nothing_else():
    body = (markdown("one two"), code("x = 1"))
    exercises = (markdown("## Exercises\n\n### Exercise 1: try"), code("glue('a', 1)\ny = 2"))
    counts, alone = measure(*body, *exercises), measure(*body)
    assert counts.pop("cells") == 4
    assert counts.pop("glue") == 1
    assert counts == {name: alone[name] for name in counts}


def test_a_page_that_only_speaks_of_exercises_is_read_to_its_end():
    assert measure(markdown("Exercises are below"), markdown("last words"))["words"] == 5


# Minutes.


@pytest.mark.parametrize(
    ("cells", "minutes"),
    [
        ([], 1),
        ([markdown("word " * 150)], 1),
        ([markdown("word " * 151)], 2),
        ([code("x = 1\n" * 30)], 2),
        ([code("x = 1\n" * 31)], 3),
        ([code("", printed("row\n" * 31))], 2),
        ([markdown("![a](b.svg)"), code("", shown(PICTURE), shown(PICTURE))], 3),
        ([markdown("word " * 300), code("x = 1\n" * 30, printed("row\n" * 30), shown(PICTURE))], 6),
    ],
)
def test_minutes_to_read(cells, minutes):
    assert measure(*cells)["minutes"] == minutes


@pytest.mark.parametrize(
    ("minutes", "line"),
    [
        ((1,), "*1 minute to read.*"),
        ((25,), "*25 minutes to read.*"),
        ((2, 1), "*2 minutes to read, 1 minute to run.*"),
        ((1, 3), "*1 minute to read, 3 minutes to run.*"),
    ],
)
def test_the_line_is_understood_again(minutes, line):
    assert reading.time_line(*minutes) == line
    found = reading.TIME_LINE.search(f"# Title\n\n{line}\n\nText")
    assert [int(number) for number in found.groups() if number] == list(minutes)


def updated(first, run=None):
    notebook = new_notebook(cells=[markdown(first), markdown("word " * 301)])
    reading.update_time_line(notebook, run)
    return notebook.cells[0].source


def test_the_line_comes_under_the_title():
    assert updated("# Title\nHook.") == "# Title\n\n*3 minutes to read.*\n\nHook."
    assert updated("# Title") == "# Title\n\n*3 minutes to read.*"
    assert updated("# Title", run=2).endswith("*3 minutes to read, 2 minutes to run.*")


def test_minutes_to_run_stay_until_it_has_run_again():
    old = "# Title\n\n*17 minutes to read, 4 minutes to run.*\n\nHook."
    assert updated(old) == "# Title\n\n*3 minutes to read, 4 minutes to run.*\n\nHook."
    assert updated(old, run=1) == "# Title\n\n*3 minutes to read, 1 minute to run.*\n\nHook."


def test_a_line_that_is_right_stays():
    once = updated("# Title\n\nHook.", run=2)
    assert updated(once) == once


def test_a_page_without_a_title_gets_no_line():
    assert updated("No title") == "No title"
    assert updated("## A section") == "## A section"
    empty = new_notebook()
    reading.update_time_line(empty)
    assert empty.cells == []


# What the tool of the notebooks makes of it.


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
        markdown("# A title"),
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


def test_normal_form_writes_the_line_and_keeps_it():
    notebook = normal(
        markdown("# Title\n\nHook."), code("# Imports\nimport torch", tags=["hide-cell"])
    )
    assert notebook.cells[0].source == "# Title\n\n*1 minute to read.*\n\nHook."
    assert notebooks.normalise(copy.deepcopy(notebook)) == notebook


def test_the_table_has_a_row_for_each_page(tmp_path, monkeypatch, capsys):
    paths = [tmp_path / f"{name}.ipynb" for name in ("first", "second")]
    for number, path in enumerate(paths):
        nbformat.write(new_notebook(cells=[markdown("word " * 10 * (number + 1))]), path)
    monkeypatch.setattr(sys, "argv", ["reading", *map(str, paths)])
    reading.main()
    head, *rows = capsys.readouterr().out.splitlines()
    assert "words" in head
    assert [row.split()[:2] for row in rows] == [["first", "10"], ["second", "20"]]

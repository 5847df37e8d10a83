"""The student edition has no solutions; points are what the checkers say."""

import csv
import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from support.paths import ROOT

from tools import classroom

CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
CHAPTER = ROOT / "chapters" / "auto-parallelism.ipynb"


def read(path):
    return nbformat.read(path, as_version=4)


def names(found, path):
    """Say whether a reader's notebook is that of a chapter."""
    return re.sub(r"^\d+-", "", found.name) == path.name


@pytest.fixture(scope="module")
def student(tmp_path_factory):
    """Write the student edition of the whole book; return its folder."""
    folder = tmp_path_factory.mktemp("student")
    classroom.write_student(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_no_solution_is_in_the_student_edition(student, path):
    wanted = classroom.exercises(read(path))
    (own,) = (read(found) for found in student.rglob("*.ipynb") if names(found, path))
    text = "\n".join(cell.source for cell in own.cells)
    assert "# Solution" not in text
    for exercise in wanted.values():
        assert exercise.solution not in text
        for _, checker, arguments in exercise.calls:
            call = rf"^# (checks\.)?{checker}\({re.escape(arguments)}\)$"
            assert re.search(call, text, re.MULTILINE)
    assert text.count("# Your solution") == len(wanted)
    titles = [c.source.partition("\n")[0] for c in read(path).cells if "### Exercise" in c.source]
    assert all(t in text for t in titles if t.startswith("### Exercise"))


def test_every_checker_of_the_chapters_is_called():
    calls = [c for p in CHAPTERS for e in classroom.exercises(read(p)).values() for c in e.calls]
    assert len(calls) > 40
    modules = {module for module, _, _ in calls}
    assert {"d2lmini.checks.devices", "d2lmini.checks.scratch"} <= modules


SOLUTION = {"tags": ["hide-cell", "solution"]}
SOURCE = """\
# Solution
def add(a, b):
    return a + b


checks.check_add(add)
assert add(1, 2) == 3
"""


def chapter():
    return new_notebook(
        cells=[
            new_code_cell("# Imports\nfrom d2lmini.checks import tiny as checks"),
            new_markdown_cell("## Exercises\n\n### Exercise 1: Add\n\nWrite `add`."),
            new_code_cell(SOURCE, metadata=SOLUTION),
            new_markdown_cell("### Exercise 2: Think"),
            new_code_cell("# Solution\nprint('because')", metadata=SOLUTION),
        ]
    )


def test_exercises_of_a_chapter():
    first, second = classroom.exercises(chapter()).values()
    assert first.calls == (("d2lmini.checks.tiny", "check_add", "add"),)
    assert second.calls == ()
    assert first.hint.splitlines()[1:] == ["# checks.check_add(add)"]  # as the chapter imports it
    assert second.hint == "# Your solution"


IMPORTS = """\
# mine
from graphlib import TopologicalSorter

from d2lmini import Stream, current_stream
"""


def handed_in(*own):
    """Return a student's notebook with exercises of the second chapter."""
    cells = [new_markdown_cell("# Automatic Parallelism")]
    for number, source in own:
        cells.append(new_markdown_cell(f"### Exercise {number}: ..."))
        cells.append(new_code_cell(source))
    return new_notebook(cells=cells)


def place(tmp_path, name, notebook):
    path = tmp_path / name / f"02-{CHAPTER.name}"
    path.parent.mkdir()
    nbformat.write(notebook, path)
    return path


def by_number(results):
    return {result.exercise: result for result in results}


@pytest.mark.long
@pytest.mark.process
def test_points_are_what_the_checkers_say(tmp_path, capsys):
    solutions = classroom.exercises(read(CHAPTER))
    right = solutions[5].solution.replace("# Solution", IMPORTS).partition("\n\n\nchecks.")[0]
    wrong = "def square_all(xs):\n    return [x @ x for x in xs]"
    own = [(1, "1 / 0"), (2, wrong), (5, right)]
    path = place(tmp_path, "ada", handed_in(*own))
    results = by_number(classroom.points(path, timeout=120))
    assert {r.student for r in results.values()} == {"ada"}
    assert results[5].points == 1, results[5].message
    assert results[5].message == ""
    assert results[2].points == 0
    assert results[2].message
    assert results[1].message.startswith("not answered: name "), "what is not there is said"
    assert results[3].message == "the exercise is not in the notebook"
    assert 6 not in results, "an exercise without a checker has no points"
    classroom.report(list(results.values()), tmp_path / "points.csv")
    assert "ada: 1 of 5 points" in capsys.readouterr().out
    rows = list(csv.reader((tmp_path / "points.csv").open()))
    assert rows[0] == ["student", "chapter", "exercise", "points", "message"]
    assert len(rows) == 6


def test_the_books_solution_earns_nothing():
    wanted = classroom.exercises(read(CHAPTER))
    copied = classroom.judged(handed_in((2, wanted[2].solution)), wanted)
    assert not any(c.source.startswith("# Solution") for c in copied.cells)
    (judge,) = [c for c in copied.cells if classroom.JUDGES in c.metadata]
    assert "check_square_all as d2lmini_judge\nd2lmini_judge(square_all)" in judge.source


def test_cells_of_ones_own_that_look_like_judges_earn_nothing():
    wanted = {2: classroom.exercises(read(CHAPTER))[2]}
    own = handed_in((2, "pass"), (2, "# Judged: 2\npass"), (2, "# Judged: 2\npass"))
    own.cells[-1].metadata[classroom.JUDGES] = 2  # as in a notebook that was judged before
    cells = classroom.judged(own, wanted).cells
    judges = [cell for cell in cells if cell.metadata.get(classroom.JUDGES) == 2]
    assert ["d2lmini_judge(" in cell.source for cell in judges] == [True]
    for cell in cells:
        if cell.cell_type == "code":
            cell.execution_count = 1  # all ran to their ends
    judges[0].outputs = [new_output("error", ename="AssertionError", evalue="too few squares")]
    assert classroom.outcome(new_notebook(cells=cells), wanted[2]) == (0, "too few squares")


def test_a_notebook_of_another_name_is_refused(tmp_path, capsys):
    assert classroom.main(["points", str(tmp_path / "homework.ipynb")]) == 1
    assert "no chapter has this name" in capsys.readouterr().err


def test_an_exercise_that_nobody_answered_is_said_to_be_so():
    missing = new_output("error", ename="NameError", evalue="name 'predict' is not defined")
    judge = new_code_cell("from a import b as d2lmini_judge\nd2lmini_judge(predict)")
    judge.outputs = [missing]
    assert classroom.problem(judge) == "not answered: name 'predict' is not defined"
    judge.source = judge.source.replace("predict", "forecast")  # the answer uses another
    assert classroom.problem(judge) == "NameError: name 'predict' is not defined"

"""For teachers: notebooks without solutions, and points for those that students hand in.

``python -m tools.classroom student`` writes the readers' notebooks without solutions; the cell for
one's own work names the checker. ``python -m tools.classroom points handed-in/*/01-devices.ipynb``
runs notebooks and has the book's checkers judge what they define.
"""

import argparse
import ast
import csv
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell
from tqdm import tqdm

from tools.notebooks import tags
from tools.readers import build, place
from tools.readers import cells as readers_cells
from tools.readers.book import ROOT, Book
from tools.words import say

JUDGES = "d2lmini_judges"  # in a cell's metadata: the number of the exercise that it judges
FOLDER = ROOT / "_build" / "student"


@dataclass(frozen=True)
class Exercise:
    """An exercise: its number, how its checkers are called, the book's solution."""

    number: int
    calls: tuple  # of (module, checker, arguments as code)
    solution: str

    @property
    def hint(self):
        """Return what stands in the cell for one's own work."""
        if not self.calls:
            return f"# {say('Your solution')}"
        called = []
        for _, checker, arguments in self.calls:
            spelled = re.search(rf"[\w.]*\b{checker}(?=\()", self.solution)[0]  # checks.check_...
            called.append(f"# {spelled}({arguments})")
        return "\n".join([f"# {say('Your solution. Then check it:')}", *called])


@dataclass
class Result:
    """What a student has got for an exercise, and what a checker said if it was not all."""

    student: str
    chapter: str
    exercise: int
    points: float
    message: str = ""


def imported(notebook):
    """Return where names of a chapter come from: ``{name: module}``."""
    found = {}
    for cell in notebook.cells:
        if cell.cell_type != "code" or "d2lmini.checks" not in cell.source:
            continue
        for node in ast.parse(cell.source).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "d2lmini.checks"
            ):
                for name in node.names:
                    inside = node.module == "d2lmini.checks"
                    module = f"{node.module}.{name.name}" if inside else node.module
                    found[name.asname or name.name] = module
    return found


def checker_calls(source, modules):
    """Return the calls of checkers in a solution."""
    calls = []
    for node in ast.parse(source).body:
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call):
            continue
        path = ast.unparse(call.func).split(".")
        if path[-1].startswith("check_") and path[0] in modules:
            arguments = [ast.unparse(a) for a in [*call.args, *call.keywords]]
            calls.append((modules[path[0]], path[-1], ", ".join(arguments)))
    return tuple(calls)


def exercises(notebook):
    """Return the exercises of a chapter's source, by number."""
    modules, found, number = imported(notebook), {}, 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            number += len(readers_cells.exercises(cell.source))
        elif "solution" in tags(cell):
            calls = checker_calls(cell.source, modules)
            found[number] = Exercise(number, calls, cell.source.strip())
    return found


def number_of(cell):
    """Return the number of the exercise that a cell begins, 0 for another heading, else None."""
    if cell.cell_type != "markdown" or not cell.source.startswith(("# ", "## ", "### ")):
        return None
    return readers_cells.exercises(cell.source).get(0, 0)


def without_solutions(notebook, wanted):
    """Return a reader's notebook without solutions; the own cells say how to check.

    Parameters
    ----------
    notebook : nbformat.NotebookNode
    wanted : dict
        The chapter's exercises.
    """
    own, current, solved = nbformat.from_dict(notebook), None, False
    titles = {_first(exercise.solution) for exercise in wanted.values()}  # "# Solution"
    kept = []
    for cell in own.cells:
        if (number := number_of(cell)) is not None:
            current, solved = wanted.get(number), False
        solved |= cell.cell_type == "code" and _first(cell.source) in titles
        if solved:
            continue
        if current and cell.cell_type == "code" and not cell.source:
            cell.source = current.hint
        kept.append(cell)
    own.cells = kept
    return own


def _first(source):
    return source.partition("\n")[0]


def write_student(folder, book=None):
    """Write the student edition; return the names of its files."""
    book = book or Book()
    pages = build.build_all(book, ROOT / "_build" / "pictures")
    for page in pages:
        source = book.pages[page.page]
        if source.is_chapter:
            page.notebook = without_solutions(page.notebook, exercises(source.notebook))
    return place.place_all(Path(folder), pages)


def judged(notebook, wanted):
    """Return a student's notebook with a cell behind each exercise that judges it."""
    own, current, cells = nbformat.from_dict(notebook), None, []
    solutions = {exercise.solution for exercise in wanted.values()}
    heads = [number_of(cell) for cell in own.cells]
    last = {number: index for index, number in enumerate(heads)}  # a repeated heading counts once
    for index, cell in enumerate(own.cells):
        cell.metadata.pop(JUDGES, None)  # nobody judges their own work
        if (number := heads[index]) is not None:
            cells += judge_cells(current)
            current = wanted.get(number) if index == last[number] else None
        if cell.source.strip() not in solutions:  # the book's own earns nothing
            cells.append(cell)
    own.cells = cells + judge_cells(current)
    return own


def judge_cells(exercise):
    """Return the cells that call the checkers of an exercise, one each."""
    return [
        new_code_cell(
            f"from {module} import {checker} as d2lmini_judge\nd2lmini_judge({arguments})",
            metadata={JUDGES: exercise.number},
        )
        for module, checker, arguments in (exercise.calls if exercise else ())
    ]


def run(notebook, timeout=300, name=None):
    """Run a notebook to its end, whatever its cells raise; in place. A terminal sees how far."""
    from nbclient import NotebookClient

    with tqdm(desc=name, total=len(notebook.cells), unit="cell", leave=False, disable=None) as bar:
        NotebookClient(
            notebook,
            timeout=timeout,
            interrupt_on_timeout=True,
            allow_errors=True,
            resources={"metadata": {"path": str(ROOT / "chapters")}},
            on_cell_start=lambda cell_index, **_: bar.update(cell_index - bar.n),
        ).execute()


def points(path, timeout=300, folder=None, name=None):
    """Judge a notebook that a student has handed in.

    Parameters
    ----------
    path : pathlib.Path
        Its name is that of the chapter, with or without its number; the folder's name is that of
        the student.
    timeout : float
        Seconds for a cell.
    folder : pathlib.Path, optional
        Where the sources of the chapters are.
    name : str, optional
        What a terminal calls the notebook while it runs.

    Returns
    -------
    list of Result
    """
    source = (folder or ROOT / "chapters") / re.sub(r"^\d+-", "", path.name)
    if not source.exists():
        raise ValueError(f"{path}: no chapter has this name; leave the names as they were")
    wanted = exercises(nbformat.read(source, as_version=4))
    notebook = judged(nbformat.read(path, as_version=4), wanted)
    run(notebook, timeout, name)
    student = path.resolve().parent.name
    return [
        Result(student, source.stem, n, *outcome(notebook, exercise))
        for n, exercise in wanted.items()
        if exercise.calls
    ]


def outcome(notebook, exercise):
    """Return the points of an exercise, 1 if all its checkers passed, and the first message."""
    cells = [cell for cell in notebook.cells if cell.metadata.get(JUDGES) == exercise.number]
    messages = [problem(cell) for cell in cells]
    passed = sum(message == "" for message in messages)
    if not cells:
        return 0.0, "the exercise is not in the notebook"
    return passed / len(exercise.calls), next(filter(None, messages), "")


def problem(cell):
    """Return what went wrong in a cell, in one line; nothing if it ran to its end."""
    for output in cell.outputs:
        if output.output_type == "error":
            text = " ".join(str(output.evalue).split())
            missing = re.fullmatch(r"name '(\w+)' is not defined", text)
            if missing and re.search(rf"\b{missing[1]}\b", cell.source):
                return f"not answered: {text}"
            return text if output.ename == "AssertionError" else f"{output.ename}: {text}"
    return "" if cell.execution_count is not None else "not run"


def report(results, file=None):
    """Print points and messages, and write them as CSV if a file is given."""
    for result in results:
        said = f"  {result.message[:90]}" if result.message else ""
        print(
            f"{result.student:20} {result.chapter:22} {result.exercise} {result.points:4.2f}{said}"
        )
    for student in sorted({r.student for r in results}):
        mine = [r for r in results if r.student == student]
        print(f"{student}: {sum(r.points for r in mine):g} of {len(mine)} points")
    if file:
        with Path(file).open("w", newline="", encoding="utf-8") as target:
            writer = csv.writer(target)
            writer.writerow(["student", "chapter", "exercise", "points", "message"])
            writer.writerows(
                [r.student, r.chapter, r.exercise, r.points, r.message] for r in results
            )


def main(arguments=None):
    """Command line: writes the student edition, or judges notebooks."""
    parser = argparse.ArgumentParser(description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    student = actions.add_parser("student", help="write the notebooks without solutions")
    student.add_argument("--folder", type=Path, default=FOLDER, help="default: _build/student")
    judge = actions.add_parser("points", help="run notebooks and judge their exercises")
    judge.add_argument("notebooks", nargs="+", type=Path, help="STUDENT/CHAPTER.ipynb")
    judge.add_argument("--csv", type=Path, help="write the points to this file, too")
    judge.add_argument("--timeout", type=float, default=300, help="seconds for a cell")
    options = parser.parse_args(arguments)
    if options.action == "student":
        names = write_student(options.folder)
        print(f"student edition: {len(names)} notebooks without solutions in\n{options.folder}")
        return 0
    try:
        names = [f"{n} of {len(options.notebooks)}" for n in range(1, len(options.notebooks) + 1)]
        given = zip(options.notebooks, names, strict=True)
        results = [r for path, name in given for r in points(path, options.timeout, name=name)]
        report(results, options.csv)
    except (ValueError, OSError) as error:
        print(f"points: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

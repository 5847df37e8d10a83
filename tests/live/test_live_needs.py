"""Which cells have to run before another one."""

import nbformat
import pytest
from nbclient import NotebookClient
from support.paths import CHAPTERS

from tools import notebooks
from tools.live.needs import names_in, plan


def needed(*sources, ran=(), **options):
    """Return what has to run before the last of some cells."""
    return plan(list(sources), set(ran), len(sources) - 1, **options).run


@pytest.mark.parametrize(
    ("source", "reads", "later", "assigns"),
    [
        ("y = x + 1", "x", "", "y"),
        ("x = 1\ny = x", "", "", "x y"),
        ("def f(a=x):\n    return a + z", "x", "z", "f"),
        ("z = 2\nf = lambda a: a + z", "", "", "f z"),
        ("s = sum(a * n for a in rows)", "n rows sum", "", "s"),
        ("class A(B):\n    c = d\n    def f(self):\n        return e", "B d", "e", "A"),
        ("with open(p) as file:\n    t = file.read()\nprint(t)", "open p print", "", "file t"),
        ("for i in r:\n    t = i\n    u = t", "r", "", "i t u"),
        ("if c:\n    a = 1\nprint(a)", "a c print", "", "a"),
        ("import a.b, c as d", "", "", "a d"),
        ("n += 1", "n", "", "n"),
        ("def f():\n    global n\n    n = 1", "", "", "f n"),
        ("no python at all", "", "", ""),
    ],
)
def test_names_of_a_cell(source, reads, later, assigns):
    names = names_in(source)
    found = (names.reads, names.reads_later, names.assigns)
    assert found == tuple(set(words.split()) for words in (reads, later, assigns))


def test_the_last_cell_that_assigns_a_name_is_needed_and_what_that_needs():
    assert needed("a = 1", "b = a", "b = 2", "a = 3", "c = b", "print(c)") == [2, 4]
    assert needed("import torch", "x = 1", "torch.ones(3)") == [0]


def test_what_a_function_reads_is_needed_where_it_is_called():
    assert needed("def f(): return g()", "def g(): return h", "h = 1", "f()") == [0, 1, 2]


@pytest.mark.parametrize("change", ["x[0] = 1", "x.append(1)", "fill(x)", "x += y", "if y: x = 1"])
def test_a_cell_that_changes_a_value_is_needed_and_so_is_its_first_value(change):
    assert needed("x = []", change, "x") == [0, 1]


def test_calls_of_modules_and_printing_change_nothing():
    assert needed("import m", "m.f()", "print(m)", "m.g()") == [0]


def test_shell_commands_are_no_obstacle():
    assert needed("!ls\nx = 1", "%time y = x", "x") == [0]


def test_what_has_run_is_not_needed_again():
    assert needed("a = 1", "b = a", "b", ran=[1]) == []
    assert needed("a = 1", "b = a", "b", optional={1}) == []
    assert needed("a = 1", "b = 2", "b", ran=[1], needs_all=True) == [0]


def test_a_name_that_gets_an_older_value_is_assigned_again():
    cells = ["net = 1", "weights = net", "net = 2", "net, weights"]
    assert plan(cells, {2}, 3).run == [0, 1, 2]
    made = plan(["net = 1", "a = net", "net = 2", "a"], {2}, 3)
    assert (made.run, made.again) == ([0, 1], [2])


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", sorted(CHAPTERS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_solution_runs_after_the_cells_that_it_needs_alone(path):
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    solutions = {i for i, cell in enumerate(code) if "solution" in notebooks.tags(cell)}
    for wanted in solutions:
        run = plan([cell.source for cell in code], set(), wanted).run
        notebook.cells = [code[i] for i in (*run, wanted)]
        place = {"metadata": {"path": str(path.parent)}}
        NotebookClient(notebook, timeout=600, resources=place).execute()

"""Docstrings of public names: there, right about arguments, and giving no answers away."""

import inspect
import re

import pytest

import d2lmini
from d2lmini import checks, sim
from d2lmini.checks import concise, devices, overlap, parallelism, scratch, unequal


def public_names():
    simulation = sim, sim.plan, sim.compare
    exercises = checks, concise, devices, overlap, parallelism, scratch, unequal
    for module in (d2lmini, *simulation, *exercises):
        names = getattr(module, "__all__", None) or [n for n in vars(module) if n[0] != "_"]
        for name in names:
            thing = getattr(module, name)
            if (inspect.isfunction(thing) or inspect.isclass(thing)) and (
                thing.__module__.startswith(module.__name__)
            ):
                yield pytest.param(thing, id=f"{thing.__module__}.{name}")


def documented_parameters(doc):
    """Return the names in a numpydoc Parameters section, None if there is no such section."""
    found = re.search(
        r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", doc, re.MULTILINE | re.DOTALL
    )
    if not found:
        return None
    lines = re.findall(r"^([*\w][^:\n]*)(?: :.*)?$", found[1], re.MULTILINE)
    return [name.strip().lstrip("*") for line in lines for name in line.split(",")]


@pytest.mark.parametrize("thing", list(public_names()))
def test_docstring_fits_the_signature(thing):
    doc = inspect.getdoc(thing)
    assert doc, "no docstring"
    named = documented_parameters(doc)
    if named is not None:
        real = [p for p in inspect.signature(thing).parameters if p != "self"]
        assert named == real


CHECKERS = [getattr(module, name) for module in (checks, concise, devices, parallelism)
            for name in vars(module) if name.startswith("check_")]  # fmt: skip


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_shows_no_solution(checker):
    """What its exercise asks for stands in the folded solution of the chapter alone."""
    doc = inspect.getdoc(checker)
    is_defined = re.search(rf"def {checker.__name__.removeprefix('check_')}\b", doc)
    assert not (is_defined and "passed" in doc)


def test_parameters_that_do_not_exist_would_be_found():
    doc = "Parameters\n----------\na, b : int\n    Numbers.\n*c\n    More.\n\nReturns\n-------\n"
    assert documented_parameters(doc) == ["a", "b", "c"]

"""The reference of the package: every public name is there, once."""

import importlib
import inspect
import pkgutil
import re
from collections import Counter

import nbformat
import pytest
import yaml
from support.paths import ROOT

from d2lmini import checks, sim
from tools import reference
from tools.classroom import exercises
from tools.readers.text import documented

PAGES = sorted((ROOT / "api").glob("*.md"))
BLOCK = re.compile(r"```\{eval-rst\}\n(.*?)```", re.DOTALL)
NAME = re.compile(r"^\.\. (?:autofunction|autoclass|data):: (\w+)$|^   (\w+)$", re.MULTILINE)
MODULES = ("d2lmini", "d2lmini.ddp", "d2lmini.data")
MODULES += ("simgpu", "simgpu.hardware", "simgpu.network", "simgpu.timeline")
MODULES += ("simgpu.plan", "simgpu.compare")


def shown():
    """Yield the module and the name of all that the pages show."""
    for page in PAGES:
        for block in BLOCK.findall(page.read_text(encoding="utf-8")):
            (module,) = re.findall(r"^\.\. currentmodule:: (\S+)$", block, re.MULTILINE)
            for one, other in NAME.findall(block):
                yield module, one or other


def things(pairs):
    """Return what names stand for: a thing can have several."""
    return [getattr(importlib.import_module(module), name) for module, name in pairs]


def public():
    """Return all public names: (module, name)."""
    pairs = [
        (module, name) for module in MODULES for name in importlib.import_module(module).__all__
    ]
    for module in pkgutil.iter_modules(checks.__path__, "d2lmini.checks."):
        pairs += [(module.name, name) for name in reference.checkers(module.name)]
    return [pair for pair in pairs if pair != ("d2lmini", "sim")]


def test_a_public_name_is_in_the_reference():
    there = things(shown())
    missing = [
        f"{module}.{name}"
        for module, name in public()
        if not any(thing is other for thing in things([(module, name)]) for other in there)
    ]
    assert missing == [], "add them to api/"


def test_nothing_is_there_twice_and_everything_exists():
    assert len(list(shown())) > 150
    twice = [name for name, count in Counter(shown()).items() if count > 1]
    assert twice == []
    own = [t for t in things(shown()) if inspect.isclass(t) or inspect.isfunction(t)]
    assert len(own) == len(set(map(id, own)))


def test_names_of_simulated_gpus_are_documented_under_their_short_module():
    assert ("simgpu", "spawn") in set(shown())
    assert sim.spawn in things(shown())


def test_every_page_is_in_the_contents_and_on_the_first_page():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [c for part in toc["parts"] for c in part["chapters"]]
    (entry,) = [c for c in chapters if c["file"] == "api/reference"]
    below = {section["file"] for section in entry["sections"]}
    assert below == {f"api/{page.stem}" for page in PAGES} - {"api/reference"}
    first = (ROOT / "api" / "reference.md").read_text(encoding="utf-8")
    assert {f"api/{name}" for name in re.findall(r"\]\(([\w-]+)\.md\)", first)} == below


def test_readers_notebooks_list_the_names():
    body = (
        ".. currentmodule:: d2lmini\n\n.. autofunction:: gpus\n.. autoclass:: Timer\n   :members:"
    )
    assert documented(body).splitlines()[2:] == ["- `d2lmini.gpus`", "- `d2lmini.Timer`"]


@pytest.mark.slow
def test_the_page_of_checkers_is_that_of_the_chapters():
    text = reference.PAGE.read_text(encoding="utf-8")
    assert text == reference.page(), "python -m tools.reference writes it"


@pytest.mark.slow
def test_every_checker_that_an_exercise_calls_is_listed():
    for path in reference.chapters():
        for exercise in exercises(nbformat.read(path, as_version=4)).values():
            for module, checker, _ in exercise.calls:
                assert checker in reference.checkers(module), f"{module}.{checker}"

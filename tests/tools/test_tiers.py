"""What a command does not ask for is not built, and nothing else is left out."""

from types import SimpleNamespace

import pytest
from support.paths import ROOT, TESTS
from support.suite.scheduler import REAL_JOBS, pytest_xdist_make_scheduler
from support.suite.tiers import FIRST, SLOW, asks_for

CHECK = "not (process or slow or long or browser or exhaustive)"
TEST = "not (browser or exhaustive or long)"
FULL = "not (browser or exhaustive )"
ALL = "browser or exhaustive"


@pytest.mark.parametrize(
    ("expression", "markers", "asked"),
    [
        (CHECK, set(), True),
        (CHECK, {"slow"}, False),
        (CHECK, {"timeout"}, True),
        (TEST, {"slow"}, True),
        (TEST, {"long"}, False),
        (FULL, {"long"}, True),
        (TEST, {"slow", "exhaustive"}, False),
        (ALL, {"slow"}, True),  # some of its cases may be exhaustive
        (ALL, {"exhaustive"}, True),
        ("slow and not exhaustive", {"exhaustive"}, False),
        ("", {"exhaustive"}, True),
    ],
)
def test_a_test_is_built_if_the_command_may_take_it(expression, markers, asked):
    assert asks_for(expression, frozenset(markers)) == asked


@pytest.mark.parametrize("name", SLOW)
def test_each_name_in_the_table_is_that_of_tests(name):
    assert list(TESTS.glob(f"{name}*"))


def test_jobs_of_real_processes_are_begun_first_and_by_one_worker():
    options = {"dist": "loadfile", "tx": ["popen", "popen"]}
    scheduler = pytest_xdist_make_scheduler(SimpleNamespace(getvalue=options.get), None)
    scopes = [scheduler._split_scope(f"chapters/{name}::Cell 1") for name in FIRST]
    assert len(set(scopes[: len(REAL_JOBS)])) == 1
    assert len(set(scopes)) == len(FIRST) - len(REAL_JOBS) + 1


@pytest.mark.parametrize("name", FIRST)
def test_what_comes_first_exists(name):
    assert [*TESTS.rglob(name), *(ROOT / "chapters").glob(name)]

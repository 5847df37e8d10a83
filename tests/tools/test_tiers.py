"""What a command does not ask for is not built, and nothing else is left out."""

import pytest
from support.paths import TESTS
from support.suite.tiers import SLOW, asks_for

CHECK = "not (process or slow or browser or exhaustive)"
TEST = "not (browser or exhaustive)"
ALL = "browser or exhaustive"


@pytest.mark.parametrize(
    ("expression", "markers", "asked"),
    [
        (CHECK, set(), True),
        (CHECK, {"slow"}, False),
        (CHECK, {"timeout"}, True),
        (TEST, {"slow"}, True),
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

"""Wrong solutions of exercises, and what a checker must say of them."""

import re

import pytest


def returns_nothing(*arguments):
    """Forget the `return`."""


def refuses(checker, solution, reason):
    """Assert that a checker refuses a solution for a reason, a regular expression.

    The line of the solution that a message quotes does not count: it may hold the reason itself,
    where both stand in one line of a table.
    """
    with pytest.raises(AssertionError) as caught:
        checker(solution)
    message = re.sub(r"in line \d+ \(`.*`\)", "in a line", str(caught.value))
    assert re.search(reason, message), message

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


def make_tests(checks, right, wrong):
    """Return two tests of a module's checkers: right solutions pass, wrong ones are named.

    Parameters
    ----------
    checks : module
    right : dict
        Exercise -> a right solution, or a tuple of them.
    wrong : dict
        Exercise -> reason (see `refuses`) -> a wrong solution, or a tuple of them.
    """

    def each(solutions):
        return solutions if isinstance(solutions, tuple) else (solutions,)

    accepted = [(name, solution) for name in right for solution in each(right[name])]
    refused = [
        (name, reason, solution)
        for name, reasons in wrong.items()
        for reason, solutions in reasons.items()
        for solution in each(solutions)
    ]

    @pytest.mark.parametrize(("name", "solution"), accepted)
    def test_right(name, solution, capsys):
        getattr(checks, f"check_{name}")(solution)
        assert capsys.readouterr().out.replace(" ", "_").endswith(f"{name}:_passed\n")

    @pytest.mark.parametrize(("name", "reason", "solution"), refused)
    def test_wrong(name, reason, solution):
        refuses(getattr(checks, f"check_{name}"), solution, reason)

    return test_right, test_wrong

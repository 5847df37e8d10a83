"""One case of a test for many small things of a kind; what fails is reported one by one."""

import functools
import inspect


def each(values, name_of=str):
    """Run a test for each of some values in one case, as pytest's subtests.

    Parameters
    ----------
    values : iterable
        The test's first argument is one of them; the others are fixtures.
    name_of : callable, default: `str`
        What to call a value in the report.
    """
    values = list(values)

    def decorate(test):
        @functools.wraps(test)
        def run(subtests, **fixtures):
            for value in values:
                with subtests.test(name_of(value)):
                    test(value, **fixtures)

        own, *fixtures = inspect.signature(test).parameters.values()
        run.__signature__ = inspect.Signature([own.replace(name="subtests"), *fixtures])
        return run

    return decorate

"""Call the reader's solution, and explain what went wrong in the reader's terms."""

import functools
import inspect
import traceback
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

import simgpu as sim
from d2lmini.checks.shared.apart import apart
from d2lmini.checks.shared.results import describe
from d2lmini.checks.shared.time_limit import TimeIsUpError, time_limit

# Parts of error messages of PyTorch or Python, and what they usually mean in these exercises.
HINTS = {
    "same device": "before you compute with tensors of two devices, copy one to the other's "
    "device: x.to(y.device)",
    "'NoneType'": "something is None; is a `return` missing in a function that you call?",
    "backward through the graph a second time": "compute the loss again in every call",
    "leaf Variable": "update parameters inside `with torch.no_grad():`",
}


def checker(call, may_change=()):
    """Make a checker of a function whose first argument is the reader's solution.

    The solution runs isolated from the reader's state, and each call checks for the mistakes that
    are possible in any exercise: see `Solution`.

    Parameters
    ----------
    call : str
        The call of the solution, such as ``"split_batch(X, y, devices)"``.
    may_change : sequence of str
        Arguments whose tensors the solution may write to.
    """
    name, _, arguments = call.removesuffix(")").partition("(")
    names = tuple(arguments.split(", "))

    def decorate(check):
        signature = inspect.signature(check)

        @functools.wraps(check)
        def check_apart(*args, **kwargs):
            given = signature.bind(*args, **kwargs)
            first = next(iter(given.arguments))
            given.arguments[first] = Solution(given.arguments[first], name, names, may_change)
            with apart():
                return check(*given.args, **given.kwargs)

        return check_apart

    return decorate


@dataclass(frozen=True)
class Solution:
    """The reader's solution; a call raises AssertionError for mistakes possible in any exercise.

    These are: it cannot be called like this, raises an error, does not end, changes the length of a
    list or the values of a tensor that it must not change, or creates devices of its own.
    """

    function: object
    name: str
    arguments: tuple
    may_change: tuple
    where: str = ""

    def at(self, where):
        """Return the same solution with messages that begin with `where`."""
        return replace(self, where=f"{where}: ")

    def __call__(self, *args):
        """Call the function, and check for mistakes possible in any exercise."""
        self._check_callable(args)
        sizes, versions = [_sizes(arg) for arg in args], [_versions(arg) for arg in args]
        machine = sim.machine_in_use()
        with self.running():
            result = self.function(*args)
        if sim.machine_in_use() is not machine:
            self.fail("made a new machine (by gpus or sim.configure); use the devices it is given")
        self._check_unchanged(args, sizes, versions)
        return result

    def items(self, result, length=None):
        """Return the items of an iterable result as a list of at most 10,000."""
        wanted = "a list" if length is None else f"a list of {length}"
        if not hasattr(result, "__iter__") or isinstance(result, str | bytes | dict):
            self.fail(f"returned {describe(result)}; {wanted} is needed")
        if isinstance(result, torch.Tensor) and not result.dim():
            self.fail(f"returned {describe(result)}; {wanted} is needed")
        items = []
        with self.running():
            for item in result:
                items.append(item)
                if len(items) > 10_000:
                    self.fail(
                        f"returned something that yields more than 10,000 items, not {wanted}"
                    )
        if length is not None and len(items) != length:
            self.fail(f"returned {len(items)} items in {describe(result)}; {wanted} is needed")
        return items

    def fail(self, what):
        """Raise an AssertionError that says that the solution did `what`."""
        raise AssertionError(f"{self.where}{self.name} {what}")

    @contextmanager
    def running(self):
        """Turn the errors of the reader's code into AssertionErrors that name its line."""
        try:
            with time_limit():
                yield
        except TimeIsUpError as error:
            raise AssertionError(
                f"{self.where}{self.name} does not end{self._line(error)}; does a loop never stop?"
            ) from None
        except (Exception, SystemExit) as error:
            if isinstance(error, AssertionError) and _is_ours(error):
                raise
            hint = next(
                (f" Hint: {hint}" for text, hint in HINTS.items() if text in str(error)), ""
            )
            said = f": {str(error).strip()}" if str(error) else ""
            raise AssertionError(
                f"{self.where}{self.name} raised {type(error).__name__}{self._line(error)}"
                f"{said}{hint}"
            ) from error

    def _line(self, error):
        """Return the last line of the reader's code in the traceback, for messages."""
        function = inspect.unwrap(self.function)  # remove decorators such as torch.no_grad()
        file = getattr(getattr(function, "__code__", None), "co_filename", None)
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
        return f" in line {frames[-1].lineno} (`{frames[-1].line}`)" if frames else ""

    def _check_callable(self, args):
        call = f"{self.name}({', '.join(self.arguments)})"
        if not callable(self.function):
            raise AssertionError(
                f"the checker was given {describe(self.function)}; give it the function itself, "
                f"which is called as {call}"
            )
        try:
            inspect.signature(self.function).bind(*args)
        except TypeError as error:
            raise AssertionError(f"it cannot be called as {call}: {error}") from None
        except ValueError:
            return  # a built-in function without a signature
        for kind in (inspect.iscoroutinefunction, inspect.isasyncgenfunction):
            assert not kind(self.function), f"{call} is `async`; write a plain `def`"

    def _check_unchanged(self, args, sizes, versions):
        for name, arg, size, version in zip(self.arguments, args, sizes, versions, strict=True):
            if _sizes(arg) != size:
                now = (
                    f"{len(arg)} instead of {size[0]} entries" if len(arg) != size[0] else "others"
                )
                self.fail(
                    f"changed `{name}`: it has {now} after the call. Leave the lists that you are "
                    "given as long as they are: the caller goes on using them"
                )
            if name not in self.may_change and _versions(arg) != version:
                self.fail(
                    f"wrote into `{name}`, which the caller still needs; compute a new tensor "
                    "(x + y, not x += y)"
                )


def _is_ours(error):
    """Return whether a checker's function raised the error, such as one passed to a solution."""
    frames = list(traceback.walk_tb(error.__traceback__))
    return frames[-1][0].f_globals.get("__name__", "").startswith("d2lmini.checks")


def _sizes(value):
    """Return the lengths of a list and of the lists in it, and the keys of dictionaries."""
    if isinstance(value, dict):
        return (len(value), *((key, _sizes(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return (len(value), *map(_sizes, value))
    return ()


def _versions(value):
    """Return the version counter of each tensor in a value (which costs no simulated time)."""
    if isinstance(value, torch.Tensor):
        return (id(value), value._version)
    if isinstance(value, dict):
        return tuple(map(_versions, value.values()))
    if isinstance(value, list | tuple):
        return tuple(map(_versions, value))
    return ()

"""Every checker refuses every kind of bad argument with a sentence, and leaves no trace."""

import functools
import itertools
import sys

import numpy as np
import pytest
import torch

from d2lmini import sim
from d2lmini.checks import (
    capstone,
    collectives,
    concise,
    devices,
    experts,
    long_sequences,
    overlap,
    parallelism,
    pipeline,
    putting_it_together,
    scratch,
    sharding,
    tensor_parallel,
    unequal,
    wires,
)

MODULES = [collectives, concise, devices, overlap, parallelism, pipeline, scratch, sharding]
MODULES += [tensor_parallel, unequal, wires, capstone, experts, long_sequences, putting_it_together]
CHECKERS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": checker
    for module in MODULES
    for name, checker in vars(module).items()
    if name.startswith("check_") and "._" not in checker.__module__
}

assert len(CHECKERS) >= 40


def raises(*arguments):
    return {}["the key that is missing"]


def refuses(*arguments):
    assert not arguments


def empties(*arguments):
    """Clear every list and dictionary that it is given, and return nothing."""
    for argument in arguments:
        if isinstance(argument, list | dict):
            argument.clear()
    return []


def yields(*arguments):
    yield from ()


async def awaits(*arguments):
    return arguments[0]


def builds_a_machine(*arguments):
    sim.configure(2)
    return arguments[0]


def exits(*arguments):
    sys.exit("no solution yet")


def calls_itself(*arguments):
    return calls_itself(*arguments)


def never_ends_its_list(*arguments):
    return itertools.count()


BAD = {
    "None": None,
    "a number": 42,
    "a string": "split_batch",
    "a list": [],
    "takes nothing": lambda: None,
    "takes too much": lambda a, b, c, d, e, f, g: None,
    "raises": raises,
    "its own assertion": refuses,
    "returns None": lambda *arguments: None,
    "returns a string": lambda *arguments: "done",
    "returns 0": lambda *arguments: 0,
    "returns NaN": lambda *arguments: float("nan"),
    "returns too large a number": lambda *arguments: 10**400,
    "returns True": lambda *arguments: True,
    "returns a complex number": lambda *arguments: 1j,
    "returns a class": lambda *arguments: dict,
    "returns []": lambda *arguments: [],
    "returns [None, None]": lambda *arguments: [None, None],
    "returns nested lists": lambda *arguments: [[[]], [[]]],
    "returns {}": lambda *arguments: {},
    "returns a scalar tensor": lambda *arguments: torch.zeros(()),
    "returns zeros(1)": lambda *arguments: torch.zeros(1),
    "returns integers": lambda *arguments: torch.zeros(3, 3, dtype=torch.int64),
    "returns a meta tensor": lambda *arguments: torch.zeros(64, 64, device="meta"),
    "returns what it got": lambda *arguments: arguments[0],
    "returns all that it got": lambda *arguments: arguments,
    "empties its lists": empties,
    "exits": exits,
    "calls itself": calls_itself,
    "a class": dict,
    "a built-in function": len,
    "a partial function": functools.partial(lambda *arguments: None, 1),
    "returns an array": lambda *arguments: np.zeros((2, 2)),
    "returns a sparse tensor": lambda *arguments: torch.zeros(64, 64).to_sparse(),
    "returns a module": lambda *arguments: torch.nn.Linear(2, 2),
    "yields": yields,
    "is async": awaits,
    "builds a machine": builds_a_machine,
    "never ends its list": never_ends_its_list,
}


@pytest.fixture
def reader():
    """Return the devices and a tensor that the reader has before a checker runs."""
    devices = sim.configure(2, gpu="t4", link="nvlink2")
    return devices, torch.arange(3.0, device=devices[1])


def pairs(in_tenth):
    """Yield the pairs of a checker and a bad argument that are in the tenth, or all others."""
    for i, name in enumerate(CHECKERS):
        for j, kind in enumerate(BAD):
            if ((i + j) % 10 == 0) == in_tenth:
                yield pytest.param(name, kind, id=f"{name}-{kind}")


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "kind"), pairs(in_tenth=False))
def test_each_bad_argument_is_refused_as_a_tenth_of_them_are(name, kind, reader):
    test_a_bad_argument_is_refused_and_the_readers_machine_stays_as_it_was(name, kind, reader)


@pytest.mark.parametrize(("name", "kind"), pairs(in_tenth=True))
def test_a_bad_argument_is_refused_and_the_readers_machine_stays_as_it_was(name, kind, reader):
    devices, x = reader
    moment, spans = sim.now(), len(sim.trace())
    with pytest.raises(AssertionError) as caught:
        CHECKERS[name](BAD[kind])
    assert len(str(caught.value).split()) >= 5, str(caught.value)
    assert (sim.now(), len(sim.trace())) == (moment, spans)
    assert sim.device_count() == 2
    assert sim.get_device_spec(devices[1]).name == "t4"
    assert (x + x).cpu().tolist() == [0, 2, 4]


@pytest.mark.parametrize("name", CHECKERS)
def test_the_call_that_a_message_shows_is_the_documented_one(name):
    """`split_batch(X, y, devices)` in the message and in the docstring."""
    with pytest.raises(
        AssertionError, match="give it the function itself, which is called as "
    ) as caught:
        CHECKERS[name](None)
    call = str(caught.value).rpartition("called as ")[2]
    assert f"``{call}``" in CHECKERS[name].__doc__

"""The Python functions that are called for operations are these operations, with all arguments."""

import contextlib
import itertools

import pytest
import torch
from support.samples.op_samples import ops, run, samples
from torch.utils._python_dispatch import TorchDispatchMode

from simgpu.kernels.facts import lookup


class FirstSeen(TorchDispatchMode):
    """Note the first operation that arrives, and its arguments."""

    call = None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self.call is None:
            self.call = func, args, kwargs or {}
        return func(*args, **kwargs or {})


class Checked(TorchDispatchMode):
    """Call, beside every operation, what is called for it; collect what arrives otherwise."""

    def __init__(self):
        super().__init__()
        self.compared, self.found = set(), []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, op = kwargs or {}, lookup(func)
        out = func(*args, **kwargs)
        if op.call is not func._op and not op.composite:
            self.compared.add(func)
            with FirstSeen() as seen, contextlib.suppress(Exception):
                op.call(*args, **kwargs)
            if not same(seen.call, (func, args, kwargs)):
                self.found.append(f"{func}{args}{kwargs} arrives as {seen.call}")
        return out


def same(a, b):
    """Whether two values are the same tensors and equal numbers, of the same types."""
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return a is b or (not isinstance(a, torch.Tensor) and type(a) is type(b) and a == b)


def check(names, count):
    """Run samples; return which operations were compared, and what differs."""
    with Checked() as checked:
        for name, dtype in itertools.product(names, (torch.float32, torch.int64)):
            for sample in samples(name, dtype, count):
                with contextlib.suppress(Exception):  # the CPU refuses it, or wants another mode
                    run(name, sample, "plain", "cpu")
    return checked


def test_samples_arrive_as_they_are():
    checked = check(["add", "cat", "clone", "exp", "mul", "nn.functional.relu", "softmax"], 8)
    packets = {func.overloadpacket for func in checked.compared}
    aten = torch.ops.aten
    assert packets >= {aten.add, aten.cat, aten.clone, aten.mul, aten.relu, aten._softmax}
    assert not checked.found, "\n".join(checked.found)


def test_one_that_drops_an_argument_is_found(monkeypatch):
    op = lookup(torch.ops.aten.cat.default)
    monkeypatch.setattr(op, "call", lambda tensors, dim=0: torch.cat(tensors))
    assert check(["cat"], 8).found


@pytest.mark.exhaustive
def test_all_samples_arrive_as_they_are():
    checked = check(sorted(ops()), 12)
    assert len(checked.compared) > 100
    assert not checked.found, "\n".join(checked.found)

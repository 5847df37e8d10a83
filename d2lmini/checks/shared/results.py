"""Describe the results of a solution, and extract numbers and tensors from them."""

import inspect
import math
import reprlib

import torch

from d2lmini.devices import device_name


def describe(value):
    """Return a description of a value, to follow "it returned"."""
    if value is None:
        return "None (is a `return` missing?)"
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)} on {device_name(value.device)}"
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    if inspect.isgenerator(value):
        return "a generator (from `yield`; use `return`)"
    if inspect.isroutine(value):
        return "a function (is a pair of brackets missing, to call it?)"
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    return f"a {type(value).__name__}, {reprlib.repr(value)}"


def number(value, what):
    """Return a real number, or a tensor with one element, as an int or a float."""
    wanted = f"{what} must be a number, but it is {describe(value)}"
    assert not isinstance(value, bool | str | bytes), wanted
    if isinstance(value, torch.Tensor):
        assert value.numel() == 1, wanted
        assert not value.is_complex(), wanted
        assert value.dtype != torch.bool, wanted
        try:
            value = value.item()
        except RuntimeError as error:  # a tensor with a shape but no values
            raise AssertionError(f"{wanted}: {error}") from None
    if isinstance(value, int):
        assert abs(value) < 1e300, f"{what} is far too large: {reprlib.repr(value)}"
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        raise AssertionError(wanted) from None


def whole_number(value, what):
    """Return an integral number as an int."""
    value = number(value, what)
    is_whole = math.isfinite(value) and value == int(value)
    assert is_whole, f"{what} must be a whole number, but it is {value}"
    return int(value)


def tensor(value, what, shape=None, device=None):
    """Return `value`, which must be a dense tensor, of this shape, and on this device."""
    assert isinstance(value, torch.Tensor), f"{what} must be a tensor, but it is {describe(value)}"
    assert value.layout == torch.strided, f"{what} is sparse; return an ordinary, dense tensor"
    assert shape is None or value.shape == shape, (
        f"{what} must be of shape {tuple(shape)}, but is {describe(value)}"
    )
    assert device is None or value.device == device, (
        f"{what} is not on its device: it is on {device_name(value.device)}, and should be on "
        f"{device_name(device)}; copy it with .to(device)"
    )
    return value


def several(devices):
    """Return the number and type of the devices, for messages."""
    k, kind = len(devices), device_name(devices[0]).split(":")[0]
    return f"{k} device{'s' * (k > 1)} ({kind})"

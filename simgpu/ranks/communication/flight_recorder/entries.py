"""One call of a rank as PyTorch's groups of NCCL record it: its name, and the sizes of tensors."""

from dataclasses import dataclass, field

import torch

_BOTH = {"all_reduce", "broadcast", "reduce", "barrier", "send"}  # one tensor is read and written
_ONE_TENSOR = {"all_gather": "_all_gather_base", "reduce_scatter": "_reduce_scatter_base"}
_NAMES = {"barrier": "all_reduce_barrier"}
# Calls that have tensors of unequal sizes: one broadcast, or one reduction, for each of them.
_UNEQUAL = {"all_gather": "_broadcast_oop", "reduce_scatter": "_reduce_oop"}
_SCALAR_TYPES = {
    torch.float16: "Half", torch.float32: "Float", torch.float64: "Double",
    torch.bfloat16: "BFloat16", torch.uint8: "Byte", torch.int8: "Char", torch.int16: "Short",
    torch.int32: "Int", torch.int64: "Long", torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}  # fmt: skip


@dataclass
class Operands:
    """What a call reads or writes.

    Attributes
    ----------
    sizes : list of list of int
        The shape of each tensor.
    dtypes : list of str
        The name that PyTorch has in C++ for the type of each.
    """

    sizes: list = field(default_factory=list)
    dtypes: list = field(default_factory=list)


def parts(call) -> list[tuple]:
    """Return the name, the inputs and the outputs of each entry that a call makes; mostly one.

    Parameters
    ----------
    call : Call
    """
    name, given, filled = call.what.name, call.given, call.filled
    if name == "send":
        name = _direction(call)
    elif name in _UNEQUAL and _differ(many := max(given, filled, key=len)):
        return [(f"nccl:{_UNEQUAL[name]}", each := _operands([one]), each) for one in many]
    elif len(given) == len(filled) == 1:
        name = _ONE_TENSOR.get(name, name)
    inputs, outputs = _read_and_written(call.what.name, given, filled)
    return [(f"nccl:{_NAMES.get(name, name)}", inputs, outputs)]


def _direction(call):
    """Return the name of a message, with the ranks that the sender and the receiver have."""
    source, target = map(call.key[0][1].index, call.members)
    return f"send {source}->{target}" if call.given else f"recv {target}<-{source}"


def _differ(tensors):
    return len({tensor.shape for tensor in tensors}) > 1


def _read_and_written(name, given, filled):
    if name in _BOTH:
        return (both := _operands(given or filled)), both
    if name == "all_to_all":
        return _flat(given), _flat(filled)
    if name in _UNEQUAL:
        return _stacked(given), _stacked(filled)
    return _operands(given), _operands(filled)


def _operands(tensors):
    return Operands([list(t.shape) for t in tensors], [scalar_type(t.dtype) for t in tensors])


def _flat(tensors):
    """Describe tensors that are sent as one, of one dimension."""
    return Operands([[sum(t.numel() for t in tensors)]], [scalar_type(tensors[0].dtype)])


def _stacked(tensors):
    """Describe tensors of equal size that are sent as one, with one more dimension."""
    if len(tensors) == 1:
        return _operands(tensors)
    return Operands([[len(tensors), *tensors[0].shape]], [scalar_type(tensors[0].dtype)])


def scalar_type(dtype) -> str:
    """Return the name that PyTorch has in C++ for a type of numbers.

    Examples
    --------
    >>> scalar_type(torch.bfloat16), scalar_type(torch.float8_e4m3fn)
    ('BFloat16', 'Float8_e4m3fn')
    """
    return _SCALAR_TYPES.get(dtype) or str(dtype).removeprefix("torch.").capitalize()

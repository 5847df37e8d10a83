"""Values on machines that keep shapes only: which calls have enough of them to be computed.

Small tensors of integers and bools have values: PyTorch's own code reads sizes, votes, indices and
pickled objects. So have the experts that tokens go to (`simgpu.backend.routing`), and what is
computed from such tensors alone. Of a tensor of equal numbers, such as zeros, only that number is
known; it gets values when it meets a tensor that has some.
"""

import math
import warnings

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from simgpu import user_frame
from simgpu.backend.operations.call import Call
from simgpu.backend.operations.truths import truth
from simgpu.backend.pinned import poison
from simgpu.backend.tensor import MAX_CONTROL, SimTensor, to_meta
from simgpu.clock import current
from simgpu.kernels.facts import aten, tensors_of

MADE_UP = (
    "the indices of topk are made up, since only shapes are kept: the experts of a router, "
    "balanced unless you give routing=; to compute them, use numerics=True"
)
MOST_EQUAL = 2**25  # integers of a tensor of equal numbers that gets values
MOST_KNOWN = 2**26  # elements of a result that the host computes, such as a mask of places
_CHOICES = {"argmax": 2, "max": 2, "topk": 3}  # operations that choose experts; arguments they need
_FILLS = {
    "zeros": 0, "zeros_like": 0, "new_zeros": 0, "zero_": 0, "ones": 1, "ones_like": 1,
    "new_ones": 1,
}  # fmt: skip
_FILLS_WITH = {"full": 1, "full_like": 1, "new_full": 2, "fill_": 1}  # position of the number
_LOOK_FOR_INFINITIES = {"_amp_foreach_non_finite_check_and_unscale_"}
_KEEP_EQUAL = {"_to_copy", "clone"}


def is_known(data) -> bool:
    """Whether a tensor inside a simulated one has values."""
    return data.device.type == "cpu"


def is_small(call) -> bool:
    """Whether the host has room for what a call makes of known values: it may repeat them."""
    if not call.op.pointwise or len(call.tensors) < 2:
        return True
    shape = torch.broadcast_shapes(*[tensor.shape for tensor in call.tensors])
    return math.prod(shape) <= MOST_KNOWN


def with_equal(call) -> Call | None:
    """Return a call whose tensors all have values, if those without are of equal numbers.

    A tensor that the call changes keeps its values.
    """
    if "device" in call.inner_kwargs:
        return None
    changed = tensors_of(call.op, call.args, call.kwargs)[1] if call.op.mutable else ()
    made = []
    for tensor in tree_leaves((call.args, call.kwargs)):
        if isinstance(tensor, SimTensor) and not is_known(tensor._data):
            number = tensor._block.equal
            most = MAX_CONTROL if tensor.is_floating_point() else MOST_EQUAL
            if number is None or tensor.numel() > most:
                return None
            if any(tensor is one for one in changed) and not _is_whole(tensor):
                return None  # the rest of its memory has no values that could change with it
            made.append((tensor, tensor._data, number))
    for tensor, data, number in made:
        tensor._data = torch.full_like(data, number, device="cpu")  # in its layout
    full = Call(call.op, call.args, call.kwargs)
    for tensor, data, _ in made:
        if not any(tensor is one for one in changed):
            tensor._data = data
    return full


def forget(call) -> None:
    """Replace the values of a call's tensors by shapes, for good where the call changes them."""
    if call.op.mutable:
        for tensor in tensors_of(call.op, call.args, call.kwargs)[1]:
            if isinstance(tensor, SimTensor):
                _lose(tensor)
    call.tensors = [to_meta(t) for t in call.tensors]
    call.inner_args, call.inner_kwargs = tree_map_only(
        torch.Tensor, to_meta, (call.inner_args, call.inner_kwargs)
    )


def overwrite(tensor, known):
    """Forget the values of a tensor that is written to, unless the new ones are known."""
    tensor._block.equal = None
    if not known:
        _lose(tensor)


def _lose(tensor):
    """Replace values by a shape; views of the same memory show the mark for missing values."""
    if is_known(tensor._data):
        poison(tensor._data)
        tensor._data = to_meta(tensor._data)


def note_equal(call, wrapped) -> None:
    """Record whether all numbers of what a call has made or changed are equal."""
    op = call.op
    if op.mutable:
        for tensor in tensors_of(op, call.args, call.kwargs)[1]:
            if isinstance(tensor, SimTensor):
                tensor._block.equal = _number(call) if _is_whole(tensor) else None
        if op.packet_name in _LOOK_FOR_INFINITIES:  # none are found, or no optimiser would step
            call.args[1]._block.equal = 0.0
    elif isinstance(wrapped, SimTensor) and op.makes_one:
        wrapped._block.equal = _number(call)
    elif isinstance(wrapped, SimTensor) and wrapped.dtype is not call.tensors[0].dtype:
        wrapped._block.equal = None  # a view that reads the same bytes as other numbers


def _number(call):
    """Return the number that all of a call's result is; None if it is not known."""
    name, args = call.op.packet_name, call.args
    if name in _FILLS:
        return _FILLS[name]
    if name in _FILLS_WITH:
        return as_number(args[_FILLS_WITH[name]])
    if name in _KEEP_EQUAL and isinstance(args[0], SimTensor):
        number, dtype = args[0]._block.equal, call.kwargs.get("dtype")
        return number if number is None or dtype is None else _as(dtype, number)
    return truth(call)


def as_number(value):
    """Return a finite number that can fill a tensor; None for any other value."""
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def _as(dtype, number):
    if dtype is torch.bool:
        return bool(number)
    return number if dtype.is_floating_point or dtype.is_complex else int(number)


def _is_whole(tensor):
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    repeats = any(size > 1 and stride == 0 for size, stride in sizes)
    return not repeats and tensor.numel() * tensor.element_size() >= tensor._block.size


def shape_by_values(call):
    """Return the result as a meta tensor if known masks and indices decide its shape, else None."""
    name, args = call.op.packet_name, call.inner_args
    if name == "index":
        indices = list(args[1])
        for place in reversed(range(len(indices))):
            mask = indices[place]
            if mask is not None and mask.dtype in (torch.bool, torch.uint8):
                if not is_known(mask):
                    return None
                indices[place : place + 1] = mask.nonzero(as_tuple=True)
        indices = [None if i is None else to_meta(i) for i in indices]
        return aten.index.Tensor(to_meta(args[0]), indices)
    if name == "masked_select" and is_known(args[1]):
        shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
        return args[0].new_empty(int(args[1].expand(shape).sum()), device="meta")
    if name == "bincount" and is_known(args[0]):
        least = args[2] if len(args) > 2 else call.inner_kwargs.get("minlength", 0)
        return args[1].new_empty(max(len(torch.bincount(args[0])), least), device="meta")
    return None


def routed(call, out):
    """Return the results of a call with the experts that a router chooses, if it is one.

    `topk` is, and `argmax` and `max` of a dimension if the distribution was stated: scripts use
    these to see whether a prediction is right, too.
    """
    op, args, routing = call.op, call.inner_args, call.device.machine.routing
    needed = _CHOICES.get(op.packet_name)
    if needed is None or op.num_outs:
        return out
    scores, name = args[0], op.packet_name
    if scores.dim() < 2 or not scores.is_floating_point():
        return out
    if name == "topk":
        each, dim = args[1], args[2] if len(args) > 2 else -1
    elif routing.given and len(args) > 1 and isinstance(args[1], int):
        each, dim = 1, args[1]
    else:
        return out
    experts = scores.shape[dim]
    if not routing.covers(experts) or each >= experts:
        return out
    shapes = out if name == "argmax" else out[1]
    if current.ranks is None and not (routing.given or routing.used):
        warnings.warn(f"{user_frame.line()}: {MADE_UP}", stacklevel=2)
    rows = [n for i, n in enumerate(scores.shape) if i != dim % scores.dim()]
    chosen = routing.choose(scores.numel() // experts, each, experts).view(*rows, each)
    chosen = chosen.movedim(-1, dim)
    if shapes.dim() < scores.dim():
        chosen = chosen.squeeze(dim)
    values = torch.empty_strided(shapes.shape, shapes.stride(), dtype=shapes.dtype).copy_(chosen)
    return values if name == "argmax" else (out[0], values)

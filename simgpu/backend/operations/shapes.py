"""Running operations if only shapes are kept (``numerics=False``), and the control data of ranks.

In ranks, PyTorch's own code reads small integer and bool tensors (sizes, votes, indices, pickled
objects). These keep their values until they are combined with tensors that have none.
"""

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from simgpu.backend.operations.call import Call
from simgpu.backend.operations.layouts import as_on_cpu
from simgpu.backend.operations.results import cost, launch, wrap_all
from simgpu.backend.ops import MAX_REMEMBERED, WRITE_THE_SAME, signature, tensors_of
from simgpu.backend.tensor import META, SimTensor, no_shapes, refuse_overlap, shapes_only, to_meta


def run_shapes(call):
    """Run one operation on shapes; results and costs are cached by the shapes of the arguments."""
    op, machine = call.op, call.device.machine
    if machine.keeps_control:
        have_values = [t.device.type == "cpu" for t in call.tensors]
        if op.generator is None and all(have_values):
            return _run_values(call)
        if any(have_values):
            _forget_values(call)
    if waits_for_shape(call):
        raise shapes_only(op.name)
    if op.mutable and op.packet_name not in WRITE_THE_SAME:
        refuse_overlap(tensors_of(op, call.args, call.kwargs)[1])
    if op.inplace_view:
        call = _in_own_storage(call)
        out = _shapes_of(call)
        known = out, cost(call, out)
    else:
        key = (
            op.func, signature(call.inner_args), tuple(call.inner_kwargs),
            signature(call.inner_kwargs.values()),
        )  # fmt: skip
        known = machine.shapes.get(key)
        if known is None:
            if len(machine.shapes) >= MAX_REMEMBERED:
                machine.shapes.clear()
            out = as_on_cpu(op, (call.inner_args, call.inner_kwargs), _shapes_of(call))
            known = machine.shapes[key] = out, cost(call, out)
    out, charged = known
    wrapped = wrap_all(call, out)
    if op.kernel:
        launch(call, *charged, wrapped)
    return wrapped


def waits_for_shape(call) -> bool:
    """Whether the shape of the result of a call depends on values."""
    op = call.op
    return op.syncs or (op.may_sync and _has_mask(call.inner_args[1]))


def _has_mask(indices):
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices)


def _in_own_storage(call):
    """Return a call that changes shapes, on tensors that no other wrapper and no cache shares."""
    for tensor in tensors_of(call.op, call.args, call.kwargs)[1]:
        if isinstance(tensor, SimTensor):
            data = tensor._data
            length = data.untyped_storage().nbytes() // data.element_size()
            storage = torch.empty(length, dtype=data.dtype, device=META)
            tensor._data = storage.as_strided(data.shape, data.stride(), data.storage_offset())
    return Call(call.op, call.args, call.kwargs)


def _shapes_of(call):
    op = call.op
    try:
        return op.func(*call.inner_args, **call.inner_kwargs)
    except NotImplementedError:
        if op.num_returns == 0:  # it only changes its operands, which keep their shapes
            return None
        raise no_shapes(op.name) from None


def _run_values(call):
    """Run one operation whose tensors all have values."""
    out = call.op.func(*call.inner_args, **call.inner_kwargs)
    wrapped = wrap_all(call, out)
    if call.op.kernel:
        launch(call, *cost(call, out), wrapped)
    return wrapped


def _forget_values(call):
    """Replace control data by its shapes, because other tensors of the call have no values."""
    if call.op.mutable:
        for tensor in tree_leaves((call.args, call.kwargs)):
            if isinstance(tensor, SimTensor):
                tensor._data = to_meta(tensor._data)
    call.tensors = [to_meta(t) for t in call.tensors]
    call.inner_args, call.inner_kwargs = tree_map_only(
        torch.Tensor, to_meta, (call.inner_args, call.inner_kwargs)
    )

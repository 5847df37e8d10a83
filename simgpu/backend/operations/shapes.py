"""Running operations if only shapes are kept (``numerics=False``), or few values are.

``known_values.py`` says which tensors have values. They keep them until they are combined with
tensors that have none.
"""

import torch

from simgpu.backend.operations.call import Call
from simgpu.backend.operations.known_values import (
    forget,
    is_known,
    is_small,
    note_equal,
    routed,
    shape_by_values,
    with_equal,
)
from simgpu.backend.operations.layouts import as_on_cpu
from simgpu.backend.operations.results import cost, launch, wrap_all
from simgpu.backend.tensor import META, SimTensor, no_shapes, refuse_overlap, shapes_only
from simgpu.kernels.facts import MAX_REMEMBERED, signature, tensors_of

# PyTorch allows these to write to a tensor that repeats its elements.
_WRITE_THE_SAME = {
    "fill_", "zero_", "masked_fill_", "index_fill_", "index_put_", "_index_put_impl_",
}  # fmt: skip
_known: dict = {}  # results and costs by operation and shapes, the same on all machines


def run_shapes(call):
    """Run one operation on shapes; results and costs are cached by the shapes of the arguments."""
    op = call.op
    have_values = [is_known(t) for t in call.tensors]
    if op.generator is None and not op.seeded:
        full = call if all(have_values) else with_equal(call) if any(have_values) else None
        if full is not None and is_small(full):
            wrapped = _run_values(full)
            note_equal(call, wrapped)
            return wrapped
    if waits_for_shape(call):
        return _run_known_shape(call)
    if any(have_values):
        forget(call)
    if op.mutable and op.packet_name not in _WRITE_THE_SAME:
        refuse_overlap(tensors_of(op, call.args, call.kwargs)[1])
    if op.inplace_view and not op.num_outs:
        call = _in_own_storage(call)
        out = _shapes_of(call)
        known = out, cost(call, out)
    else:
        key = (
            op.func, op.kernel, signature(call.inner_args), tuple(call.inner_kwargs),
            signature(call.inner_kwargs.values()), torch.get_default_dtype(),
        )  # fmt: skip
        known = _known.get(key)
        if known is None:
            call, known, may_remember = _find(call)
            if may_remember:
                if len(_known) >= MAX_REMEMBERED:
                    _known.clear()
                _known[key] = known
    out, charged = known
    wrapped = wrap_all(call, routed(call, out))
    note_equal(call, wrapped)
    if op.kernel:
        launch(call, *charged, wrapped)
    return wrapped


def wait_for_shape(call) -> None:
    """Let the host wait if it must know how many elements the result has."""
    if call.op.may_sync and waits_for_shape(call):
        call.device.to_host(8, reason=call.op.name)


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
    own = Call(call.op, call.args, call.kwargs)
    if any(map(is_known, own.tensors)):
        forget(own)
    return own


def _find(call):
    """Return a call, its result and cost, and whether they are the same for all such calls.

    They are not if ``out=`` has got another shape.
    """
    op, before = call.op, call
    if op.num_outs:
        call = _in_own_storage(call)
        out = _shapes_of(call)
        keeps_shapes = signature(before.tensors) == signature(call.tensors)
    else:
        out = as_on_cpu(op, (call.inner_args, call.inner_kwargs), _shapes_of(call))
        keeps_shapes = True
    return call, (out, cost(call, out)), keeps_shapes


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
    if "device" in call.inner_kwargs and _makes_integers(call):
        call.inner_kwargs["device"] = "cpu"
    out = call.op.call(*call.inner_args, **call.inner_kwargs)
    wrapped = wrap_all(call, out)
    if call.op.kernel:
        launch(call, *cost(call, out), wrapped)
        wait_for_shape(call)
    return wrapped


def _makes_integers(call):
    dtype = call.inner_kwargs.get("dtype") or call.tensors[0].dtype
    return not (dtype.is_floating_point or dtype.is_complex)


def _run_known_shape(call):
    """Run one operation on shapes where masks or indices with values decide the result's shape."""
    out = shape_by_values(call)
    if out is None:
        raise shapes_only(call.op.name)
    wrapped = wrap_all(call, out)
    launch(call, *cost(call, out), wrapped)
    wait_for_shape(call)
    return wrapped

"""After an operation was computed: wrap its results, charge its time, check it for races."""

import torch
from torch.utils._pytree import tree_leaves

from simgpu.backend.conj_neg_bits import resolve
from simgpu.backend.ops import SCALE_GRADIENTS, tensors_of
from simgpu.backend.tensor import SimTensor, refresh, wrap
from simgpu.races import detector as races


def wrap_all(call, out):
    """Return the results of a call as simulated tensors: new ones, views, or the call's own."""
    op = call.op
    if op.makes_one and isinstance(out, torch.Tensor) and not call.is_complex:  # most calls
        return wrap(out, call.device)
    if op.num_returns == 1:
        return _wrap_one(op.aliases[0], call, out)
    if op.num_returns == 0:
        return out
    return tuple([
        _wrap_one(alias, call, o) for alias, o in zip(op.aliases, out, strict=True)
    ])  # fmt: skip


def _wrap_one(alias, call, out):
    if alias is None:
        if isinstance(out, torch.Tensor):
            return wrap(resolve(out) if call.is_complex else out, call.device)
        if isinstance(out, list | tuple):
            return [_wrap_one(None, call, o) for o in out]
        return out
    position, name = alias
    args = call.args
    source = args[position] if position < len(args) else call.kwargs[name]
    if call.op.mutable:
        if call.op.inplace_view:
            refresh(source)
        return source
    if isinstance(out, torch.Tensor):
        return wrap(out, call.device, source._block)
    return [wrap(o, call.device, source._block) for o in out]


def cost(call, out):
    """Return the bytes and FLOPs of one call, and the matrix products it consists of."""
    op = call.op
    if not op.kernel:
        return 0, 0, ()
    if isinstance(out, torch.Tensor):
        outs = (out,)
    elif op.num_returns == 0:
        outs = _changed(op, call.inner_args, call.inner_kwargs)
    else:
        outs = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
    return op.cost(call.tensors, call.inner_args, call.inner_kwargs, outs, out)


def _changed(op, args, kwargs):
    """Return the tensors changed by an operation that returns nothing."""
    keeps = 1 if op.packet_name in SCALE_GRADIENTS and kwargs.get("grad_scale") is None else None
    return [t for i in op.changed if i < len(args) and i != keeps for t in tree_leaves(args[i])]


def launch(call, num_bytes, flops, products, wrapped) -> None:
    """Charge the kernel of a call, and pass it to the race detector."""
    op, device = call.op, call.device
    peak = op.peak(call.tensors[0].dtype, device.gpu) if flops else "float32"
    if op.more_bytes is not None:
        num_bytes += op.more_bytes(device.gpu, peak, call.inner_args)
    device.launch(op.name, flops, num_bytes, peak, products)
    if races.active is not None:
        show(call, wrapped)


def show(call, wrapped) -> None:
    """Pass the kernel of a call to the race detector."""
    reads, writes = tensors_of(call.op, call.args, call.kwargs)
    made = [leaf for leaf in tree_leaves(wrapped) if isinstance(leaf, SimTensor)]
    races.active.touch(call.device, call.op.name, reads, writes + made)

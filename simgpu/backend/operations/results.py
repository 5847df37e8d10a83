"""After an operation was computed: wrap its results, charge its time, check it for races."""

import torch
from torch.utils._pytree import tree_leaves

from simgpu.backend.conj_neg_bits import resolve
from simgpu.backend.tensor import SimTensor, refresh, wrap
from simgpu.kernels.facts import tensors_of
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
    if torch.is_inference_mode_enabled() and not source.is_inference():
        with torch.inference_mode(False):  # a view of a normal tensor is one, and counts versions
            return _views(out, call.device, source._block)
    return _views(out, call.device, source._block)


def _views(out, device, block):
    if isinstance(out, torch.Tensor):
        return wrap(out, device, block)
    return [wrap(o, device, block) for o in out]


def cost(call, out):
    """Return the bytes and FLOPs of one call, and the matrix products it consists of."""
    op = call.op
    if not op.kernel:
        return 0, 0, ()
    if isinstance(out, torch.Tensor):
        outs = (out,)
    elif op.num_returns == 0:
        outs = _changed(op, call.inner_args)
    else:
        outs = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
    return op.cost(call.tensors, call.inner_args, call.inner_kwargs, outs, out)


def _changed(op, args):
    """Return the tensors changed by an operation that returns nothing."""
    return [t for i in op.changed if i < len(args) for t in tree_leaves(args[i])]


def launch(call, num_bytes, flops, products, wrapped) -> None:
    """Charge the kernel of a call, and pass it to the race detector."""
    op, device = call.op, call.device
    peak = op.peak(call.tensors, device.gpu) if flops else "float32"
    if op.kernel.more_bytes is not None:
        num_bytes += op.kernel.more_bytes(device.gpu, peak, call.inner_args)
    device.sink.launch(op.name, flops, num_bytes, peak, products, call, wrapped)
    if races.active is not None:
        show(call, wrapped)


def show(call, wrapped) -> None:
    """Pass the kernel of a call to the race detector."""
    reads, writes = tensors_of(call.op, call.args, call.kwargs)
    made = [leaf for leaf in tree_leaves(wrapped) if isinstance(leaf, SimTensor)]
    races.active.touch(call.device, call.op.name, reads, writes + made)

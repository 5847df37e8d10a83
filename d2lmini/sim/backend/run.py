"""Running PyTorch's operations on simulated tensors: compute, charge the time, wrap the results."""

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from d2lmini.sim.backend.fits import check_result, explain
from d2lmini.sim.backend.layouts import as_on_cpu
from d2lmini.sim.backend.lazy_bits import compute, settle
from d2lmini.sim.backend.ops import (
    MAX_REMEMBERED,
    WRITE_THE_SAME,
    lookup,
    signature,
    tensors_of,
)
from d2lmini.sim.backend.tensor import (
    META,
    SimTensor,
    everything_else,
    handles,
    mixed_devices,
    no_shapes,
    refresh,
    refuse_overlap,
    shapes_only,
    to_meta,
    wrap,
)
from d2lmini.sim.clock import current
from d2lmini.sim.naming import is_ordinary
from d2lmini.sim.races import detector as races


class _Call:
    """Collects the tensors of one call while its arguments are unwrapped."""

    __slots__ = ("device", "plain", "tensors")

    def __init__(self):
        self.device = None
        self.tensors = []
        self.plain = None

    def unwrap(self, values):
        out = []
        for value in values:
            if isinstance(value, SimTensor):
                device = value._device
                if self.device is None:
                    self.device = device
                elif self.device is not device:
                    for one in (self.device, device):
                        current.check_alive(one.machine, f"a tensor on {one.name}")
                    raise mixed_devices(self.device.name, device.name)
                value = value._data
                self.tensors.append(value)
            elif isinstance(value, torch.Tensor):
                self.plain = [value] if self.plain is None else [*self.plain, value]
                self.tensors.append(value)
            elif type(value) is list or type(value) is tuple:
                value = type(value)(self.unwrap(value))
            out.append(value)
        return out


@handles(everything_else)
def run(func, args, kwargs):
    """Compute one operation on the values, charge its time, and wrap its results."""
    op = lookup(func)
    if op.composite:
        return func.decompose(*args, **kwargs)
    if op.packet_name.startswith("_foreach") and _num_devices(args) > 1:
        return _run_foreach_apart(func, args, kwargs)
    call = _Call()
    inner_args = call.unwrap(args)
    inner_kwargs = dict(zip(kwargs, call.unwrap(kwargs.values()), strict=True)) if kwargs else {}
    device = call.device
    if not device.machine.alive:
        current.check_alive(device.machine, f"a tensor on {device.name}")
    if call.plain is not None:
        _check_plain(op, call, args)
    if "device" in inner_kwargs:
        device = _redirect(inner_kwargs, device)
        if device is None:
            return func(*inner_args, **inner_kwargs)
    if op.generator is not None:
        set_generator(op, device, inner_args, inner_kwargs)
    outer, inner = (args, kwargs), (inner_args, inner_kwargs)
    if not device.machine.numerics:
        return _run_shapes(op, device, call, outer, inner)
    check_result(op, device, call.tensors, inner_args, inner_kwargs)
    try:
        if op.seeded:
            out = run_seeded(func, device, inner_args, inner_kwargs)
        else:
            out = _compute(op, call, outer, inner)
    except RuntimeError as error:
        raise explain(error, op.name, device) from None
    wrapped = _wrap_all(op, device, outer, out)  # raises first if the memory is full
    if op.kernel:
        _launch(op, device, _cost(op, call, inner, out), outer, wrapped)
        if op.syncs or (op.packet_name == "index" and _has_mask(inner_args[1])):
            device.to_host(8, reason=op.name)  # how many elements there will be
    return wrapped


def _compute(op, call, outer, inner):
    try:
        return compute(op.func, *inner, call.tensors)
    except BaseException:
        if op.inplace_view:  # it may have changed a shape before it failed
            for tensor in tensors_of(op, *outer)[1]:
                refresh(tensor)
        raise


def _run_shapes(op, device, call, outer, inner):
    """Run one operation on shapes; what was worked out before is not worked out again."""
    if device.machine.keeps_control and any(t.device.type == "cpu" for t in call.tensors):
        if op.generator is None and all(t.device.type == "cpu" for t in call.tensors):
            return _run_values(op, device, call, outer, inner)
        inner = _forget_values(op, call, outer, inner)
    if op.syncs or (op.packet_name == "index" and _has_mask(inner[0][1])):
        raise shapes_only(op.name)
    if op.mutable and op.packet_name not in WRITE_THE_SAME:
        refuse_overlap(tensors_of(op, *outer)[1])
    machine = device.machine
    if op.inplace_view:  # changes a shape: of a tensor that no other wrapper and no cache holds
        for tensor in tensors_of(op, *outer)[1]:
            if isinstance(tensor, SimTensor):
                tensor._data = _in_own_storage(tensor._data)
        call = _Call()
        inner = call.unwrap(outer[0]), dict(
            zip(outer[1], call.unwrap(outer[1].values()), strict=True)
        )  # fmt: skip
        out = _shapes_of(op, inner)
        cost = _cost(op, call, inner, out)
    else:
        key = op.func, signature(inner[0]), tuple(inner[1]), signature(inner[1].values())
        known = machine.shapes.get(key)
        if known is None:
            if len(machine.shapes) >= MAX_REMEMBERED:
                machine.shapes.clear()
            out = as_on_cpu(op, inner, _shapes_of(op, inner))
            known = machine.shapes[key] = out, _cost(op, call, inner, out)
        out, cost = known
    wrapped = _wrap_all(op, device, outer, out)
    if op.kernel:
        _launch(op, device, cost, outer, wrapped)
    return wrapped


def _in_own_storage(data):
    length = data.untyped_storage().nbytes() // data.element_size()
    storage = torch.empty(length, dtype=data.dtype, device=META)
    return storage.as_strided(data.shape, data.stride(), data.storage_offset())


def _shapes_of(op, inner):
    try:
        return op.func(*inner[0], **inner[1])
    except NotImplementedError:
        if op.num_returns == 0:  # it changes its operands alone, and these keep their shapes
            return None
        raise no_shapes(op.name) from None


def _run_values(op, device, call, outer, inner):
    """Run one operation on the values that there are: control data of ranks."""
    out = op.func(*inner[0], **inner[1])
    wrapped = _wrap_all(op, device, outer, out)
    if op.kernel:
        _launch(op, device, _cost(op, call, inner, out), outer, wrapped)
    return wrapped


def _forget_values(op, call, outer, inner):
    """Make shapes of control data that meets tensors without values; return the arguments."""
    if op.mutable:
        for tensor in tree_leaves(outer):
            if isinstance(tensor, SimTensor):
                tensor._data = to_meta(tensor._data)
    call.tensors = [to_meta(t) for t in call.tensors]
    return tree_map_only(torch.Tensor, to_meta, inner)


def _cost(op, call, inner, out):
    """FLOPs and bytes of one call, and the type at whose peak it runs."""
    if not op.kernel:
        return None
    if isinstance(out, torch.Tensor):
        outs = (out,)
    elif op.num_returns == 0:
        outs = _changed(op, inner[0])
    else:
        outs = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
    flops = 0 if op.formula is None else op.flops(*inner, out)
    return flops, op.traffic(call.tensors, outs), call.tensors[0].dtype


def _launch(op, device, cost, outer, wrapped):
    flops, num_bytes, dtype = cost
    device.launch(op.name, flops, num_bytes, op.peak(dtype) if flops else "float32")
    if races.active is not None:
        reads, writes = tensors_of(op, *outer)
        made = [leaf for leaf in tree_leaves(wrapped) if isinstance(leaf, SimTensor)]
        races.active.touch(device, op.name, reads, writes + made)


def _changed(op, args):
    """Return the tensors that an operation without a result has changed."""
    return [t for i in op.changed if i < len(args) for t in tree_leaves(args[i])]


def _has_mask(indices):
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices)


def _wrap_all(op, device, outer, out):
    if op.num_returns == 1:
        return _wrap_one(op.aliases[0], op, device, outer, out)
    if op.num_returns == 0:
        return out
    return tuple(
        _wrap_one(alias, op, device, outer, o) for alias, o in zip(op.aliases, out, strict=True)
    )


def _wrap_one(alias, op, device, outer, out):
    if alias is None:
        if isinstance(out, torch.Tensor):
            return wrap(settle(out), device)
        if isinstance(out, list | tuple):
            return [wrap(settle(o), device) if isinstance(o, torch.Tensor) else o for o in out]
        return out
    position, name = alias
    args, kwargs = outer
    source = args[position] if position < len(args) else kwargs[name]
    if op.mutable:
        if op.inplace_view:
            refresh(source)
        return source
    if isinstance(out, torch.Tensor):
        return wrap(out, device, source._block)
    return [wrap(o, device, source._block) for o in out]


def _check_plain(op, call, args):
    """Refuse host tensors among the operands, except where CUDA takes them."""
    for tensor in call.plain:
        if tensor.dim() == 0:
            continue
        if op.packet_name in _TAKE_HOST_INDICES and _in_indices(tensor, args):
            call.device.from_host(tensor.nbytes, reason="synchronize")
            continue
        if op.packet_name in _TAKE_HOST_LENGTHS:
            continue
        raise mixed_devices(call.device.name, tensor.device)


# Lengths of sequences, which CUDA's kernels want on the host.
_TAKE_HOST_LENGTHS = {
    "_ctc_loss", "_ctc_loss_backward", "_pack_padded_sequence", "_pack_padded_sequence_backward",
}  # fmt: skip
_TAKE_HOST_INDICES = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}


def _in_indices(tensor, args):
    return isinstance(args[0], SimTensor) and any(tensor is index for index in args[1])


def _redirect(kwargs, device):
    """Turn a ``device=`` argument into the inner one; None if the result is a host tensor."""
    wanted = kwargs["device"]
    kwargs.pop("pin_memory", None)
    if wanted is not None:
        if is_ordinary(wanted):
            return None
        device = current.find_device(wanted)
    kwargs["device"] = "cpu" if device.machine.numerics else META
    return device


def set_generator(op, device, args, kwargs):
    """Let an operation draw from the device's generator."""
    position = op.generator
    given = args[position] if position < len(args) else kwargs.get("generator")
    if given is not None:
        raise RuntimeError(
            f"Expected a 'sim' device type for generator but found '{given.device.type}'; draw on "
            "the host with it and move the result, or seed the device with torch.manual_seed"
        )
    generator = device.draw() if device.machine.numerics else None
    if position < len(args):
        args[position] = generator
    else:
        kwargs["generator"] = generator


def run_seeded(func, device, args, kwargs):
    """Run an operation that draws from the global generator with the device's instead."""
    with device.machine.lock:  # threads would otherwise draw from each other's state
        host_state = torch.get_rng_state()
        generator = device.draw()
        torch.set_rng_state(generator.get_state())
        try:
            return func(*args, **kwargs)
        finally:
            generator.set_state(torch.get_rng_state())
            torch.set_rng_state(host_state)


def _num_devices(args):
    return len({t._device for t in tree_leaves(args) if isinstance(t, SimTensor)})


def _run_foreach_apart(func, args, kwargs):
    """Run a _foreach operation over tensors of several devices one by one, as CUDA does."""
    lists = [a for a in args if isinstance(a, list | tuple)]
    length = len(lists[0])
    outs = []
    for i in range(length):
        one = [[a[i]] if isinstance(a, list | tuple) else a for a in args]
        out = func(*one, **kwargs)
        if out is not None:
            outs += out
    return outs or None

"""Running PyTorch's operations on simulated tensors: compute, charge the time, wrap the results.

Every operation of every program comes through here, so its overhead is kept small: facts about the
operation are computed once (`Op`), each rare case costs one test, and the most frequent operations
(`Op.simple`) take a fast path, `run_simple`.
"""

from torch.utils._pytree import tree_leaves

from simgpu.backend.conj_neg_bits import compute_complex
from simgpu.backend.operations.call import Call
from simgpu.backend.operations.draws import run_seeded, set_generator
from simgpu.backend.operations.host_memory_check import check_result, explain
from simgpu.backend.operations.results import cost, launch, show, wrap_all
from simgpu.backend.operations.shapes import run_shapes, wait_for_shape
from simgpu.backend.tensor import (
    META,
    SimTensor,
    everything_else,
    handles,
    mixed_devices,
    refresh,
    simple,
    wrap,
)
from simgpu.clock import current
from simgpu.kernels.facts import tensors_of
from simgpu.kernels.traffic import bytes_of
from simgpu.naming import is_ordinary
from simgpu.races import detector as races


@handles(simple)
def run_simple(op, args, kwargs):
    """Run an operation that makes one new tensor: the fast path of `run`."""
    call = Call(op, args, kwargs)
    device, inner_args = call.device, call.inner_args
    machine = device.machine
    if kwargs or call.plain or call.is_complex or not (machine.numerics and machine.alive):
        return run(op, args, kwargs, call)
    check_result(op, device, call.tensors, inner_args, kwargs)
    try:
        out = op.call(*inner_args)
    except RuntimeError as error:
        raise explain(error, op, device) from None
    wrapped = wrap(out, device)
    if op.stated:
        launch(call, *op.cost(call.tensors, inner_args, kwargs, (out,), out), wrapped)
        return wrapped
    num_bytes = bytes_of([out, *call.tensors])
    device.sink.launch(op.name, 0, num_bytes, "float32", (), call, wrapped)
    if races.active is not None:
        show(call, wrapped)
    return wrapped


@handles(everything_else)
def run(op, args, kwargs, call=None):
    """Compute one operation on the values, charge its time, and wrap its results.

    `call` is the `Call` of these arguments, if the caller has made it.
    """
    if op.composite:
        return op.func.decompose(*args, **kwargs)
    if op.foreach and _num_devices(args) > 1:
        return _run_foreach_one_by_one(op, args, kwargs)
    if call is None:
        call = Call(op, args, kwargs)
    machine = call.device.machine
    if not machine.alive:
        current.check_alive(machine, f"a tensor on {call.device.name}")
    if call.plain:
        _check_plain(call)
    if kwargs and "device" in kwargs and not _redirect(call):
        return op.func(*call.inner_args, **call.inner_kwargs)
    if op.generator is not None:
        set_generator(op, call.device, call.inner_args, call.inner_kwargs)
    if not machine.numerics:
        return run_shapes(call)
    if op.makes:
        check_result(op, call.device, call.tensors, call.inner_args, call.inner_kwargs)
    try:
        if op.seeded:
            out = run_seeded(op.func, call.device, call.inner_args, call.inner_kwargs)
        elif call.is_complex:
            out = compute_complex(op.func, call.inner_args, call.inner_kwargs)
        elif call.inner_kwargs:  # also the generator that was set
            out = op.call(*call.inner_args, **call.inner_kwargs)
        else:
            out = op.call(*call.inner_args)
    except BaseException as error:
        if op.inplace_view:  # it may have changed a shape before it failed
            for tensor in tensors_of(op, args, kwargs)[1]:
                refresh(tensor)
        if isinstance(error, RuntimeError):
            raise explain(error, op, call.device) from None
        raise
    # Before the launch: an operation whose results do not fit does not run.
    wrapped = wrap_all(call, out)
    if op.kernel:
        launch(call, *cost(call, out), wrapped)
        wait_for_shape(call)
    return wrapped


def _check_plain(call):
    """Refuse host tensors among the operands, except where CUDA takes them."""
    op, args = call.op, call.args
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


def _redirect(call):
    """Replace a ``device=`` argument by the inner device; False if the result is a host tensor."""
    kwargs = call.inner_kwargs
    wanted = kwargs["device"]
    kwargs.pop("pin_memory", None)
    if wanted is not None:
        if is_ordinary(wanted):
            return False
        call.device = current.find_device(wanted)
    kwargs["device"] = "cpu" if call.device.machine.numerics else META
    return True


def _num_devices(args):
    return len({t._device for t in tree_leaves(args) if isinstance(t, SimTensor)})


def _run_foreach_one_by_one(op, args, kwargs):
    """Run a _foreach operation tensor by tensor if they are on several devices, as CUDA does."""
    lists = [a for a in args if isinstance(a, list | tuple)]
    length = len(lists[0])
    outs = []
    for i in range(length):
        one = [[a[i]] if isinstance(a, list | tuple) else a for a in args]
        out = op.func(*one, **kwargs)
        if out is not None:
            outs += out
    return outs or None

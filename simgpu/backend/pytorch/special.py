"""Operations that need special handling besides being computed and charged.

PyTorch decomposes some of them for tensor subclasses, but not for CUDA tensors: `F.ctc_loss` takes
lengths in host tensors and reads them as numbers (decomposed, it would divide the losses by tensors
on another device); the backward pass of `F.mish` is one kernel on CPU and CUDA, and nine elsewhere;
`F.dropout` is one kernel on CUDA, which stores a byte per element, and elsewhere three kernels with
a mask of the input's dtype.
"""

import functools

import torch

from simgpu.backend.attention import kernels as attention
from simgpu.backend.operations.run import run
from simgpu.backend.tensor import SimTensor, handles, shapes_only
from simgpu.kernels.facts import aten, lookup
from simgpu.naming import is_simulated

_KEY = torch._C.DispatchKey.AutogradMeta  # to which C++ dispatches operations on our tensors
_KEYS = torch._C.DispatchKeySet(_KEY)


@handles(aten.set_)
def _set(op, args, kwargs):
    """``tensor.set_(source)``: from now on the tensor uses the memory of `source`."""
    tensor, block = args[0], args[0]._block
    if len(args) > 1 and isinstance(args[1], SimTensor):
        tensor._block = args[1]._block
    try:
        return run(op, args, kwargs)
    except BaseException:
        tensor._block = block
        raise


@handles(aten._conj)
def _conj(op, args, kwargs):
    """Compute a conjugate view, which PyTorch marks by a bit that the wrapper cannot carry."""
    return run(lookup(aten.conj_physical.default), args, kwargs)


@handles(aten._neg_view)
def _neg_view(op, args, kwargs):
    """Compute a negative view, for the same reason."""
    return run(lookup(aten.neg.default), args, kwargs)


@handles(aten._pack_padded_sequence)
def _pack_padded_sequence(op, args, kwargs):
    """Pack sequences; as on CUDA, the batch sizes it returns are a host tensor."""
    if not args[0]._device.machine.numerics:
        raise shapes_only("pack_padded_sequence")
    data, batch_sizes = run(op, args, kwargs)
    return data, batch_sizes._data


def _with_numbers(args):
    """Return the arguments with lengths as lists; None if no length is a host tensor."""
    lengths = args[2:4]
    if not any(isinstance(n, torch.Tensor) and not isinstance(n, SimTensor) for n in lengths):
        return None
    numbers = [n.tolist() if isinstance(n, torch.Tensor) else n for n in lengths]
    return (*args[:2], *numbers, *args[4:])


@handles(aten.ctc_loss)
def _ctc_loss(op, args, kwargs):
    """Handle the operation in inference mode, in which it arrives undecomposed."""
    numbers = _with_numbers(args)
    if numbers is None:
        return run(op, args, kwargs)
    return run(lookup(aten.ctc_loss.IntList), numbers, kwargs)


@handles(aten.dropout)
def _dropout(op, args, kwargs):
    """Handle the operation in inference mode, in which it arrives undecomposed."""
    if _is_fused(*args):
        return aten.native_dropout(*args)[0]
    return run(op, args, kwargs)


@handles(aten.scaled_dot_product_attention)
def _attention(op, args, kwargs):
    """Handle the operation in inference mode, in which it arrives undecomposed."""
    own = functools.partial(_run_with, op)
    return attention.attend(own, *args, **kwargs)


def _run_with(op, *args, **kwargs):
    return run(op, args, kwargs)


@handles(aten._fused_sdp_choice)
def _attention_choice(op, args, kwargs):
    return attention.choose(*args, **kwargs)


def _is_fused(x, p, train):
    """Whether CUDA has one kernel for this call of dropout."""
    on_device = isinstance(x, SimTensor) or (
        type(x) is not torch.Tensor and is_simulated(x.device)  # such as a DTensor
    )
    return on_device and train and 0 < p < 1 and x.numel() > 0


def register(library) -> None:
    """Register kernels that treat simulated tensors as PyTorch treats CUDA tensors."""
    for name, make_kernel in (
        ("ctc_loss.Tensor", _ctc_kernel), ("mish_backward", _mish_kernel),
        ("dropout", _dropout_kernel),
    ):  # fmt: skip
        own = torch.library.get_kernel(f"aten::{name}", _KEY)
        library.impl(name, make_kernel(functools.partial(own.call_boxed, _KEYS)), "AutogradMeta")


def _ctc_kernel(own):
    def ctc_loss(*args):
        numbers = _with_numbers(args) if isinstance(args[0], SimTensor) else None
        return own(*args) if numbers is None else aten.ctc_loss.IntList(*numbers)

    return ctc_loss


def _dropout_kernel(own):
    def dropout(x, p, train):
        return aten.native_dropout(x, p, train)[0] if _is_fused(x, p, train) else own(x, p, train)

    return dropout


def _mish_kernel(own):
    def mish_backward(*args):
        if torch.is_grad_enabled() or not isinstance(args[0], SimTensor):
            return own(*args)
        with torch._C._AutoDispatchBelowAutograd():
            return aten.mish_backward(*args)

    return mish_backward

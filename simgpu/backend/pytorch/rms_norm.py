"""`F.rms_norm` on simulated GPUs: one kernel forward and one backward, as on CUDA from 2.9 on.

PyTorch has these kernels for CUDA alone, and eight small ones elsewhere. On CUDA, too, it takes the
eight if the weight has another type than the data.
"""

import functools

import torch
from torch._decomp import decompositions

from simgpu.backend.operations.call import Call
from simgpu.backend.operations.results import cost, launch, wrap_all
from simgpu.backend.operations.run import run
from simgpu.backend.tensor import SimTensor, handles
from simgpu.kernels.facts import aten
from simgpu.naming import is_simulated

_KEY = torch._C.DispatchKey.AutogradMeta  # to which C++ dispatches operations on our tensors
_KEYS = torch._C.DispatchKeySet(_KEY)


def register(library) -> None:
    """Register the norm in a library of ``aten``, until the library is destroyed."""
    if not hasattr(aten, "_fused_rms_norm_backward"):  # nor has CUDA
        return
    own = torch.library.get_kernel("aten::rms_norm", _KEY)
    own = functools.partial(own.call_boxed, _KEYS)
    library.impl("rms_norm", functools.partial(_norm, own), "AutogradMeta")
    library.impl("_fused_rms_norm_backward", decompositions._fused_rms_norm_backward, "CPU")


def _norm(own, x, shape, weight=None, eps=None):
    if _is_fused(x, weight):
        return _Norm.apply(x, shape, weight, eps, own)
    return own(x, shape, weight, eps)


def _is_fused(x, weight):
    """Whether CUDA has one kernel for this call; `x` may be a DTensor of simulated tensors."""
    ours = isinstance(x, SimTensor) or (type(x) is not torch.Tensor and is_simulated(x.device))
    return ours and not x.is_complex() and (weight is None or weight.dtype is x.dtype)


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shape, weight, eps, own):
        with torch._C._AutoDispatchBelowAutograd():
            out, scales = aten._fused_rms_norm(x, shape, weight, eps)
        ctx.save_for_backward(x, weight, scales)
        ctx.shape, ctx.eps, ctx.own = shape, eps, own
        return out

    @staticmethod
    def backward(ctx, grad):
        x, weight, scales = ctx.saved_tensors
        wanted = [ctx.needs_input_grad[0], ctx.needs_input_grad[2]]
        if torch.is_grad_enabled():  # what has to be differentiable again
            y = ctx.own(x, ctx.shape, weight, ctx.eps)
            inputs = [t for t, needed in zip((x, weight), wanted, strict=True) if needed]
            grads = iter(torch.autograd.grad(y, inputs, grad, create_graph=True))
            found = [next(grads) if needed else None for needed in wanted]
        else:
            found = aten._fused_rms_norm_backward(grad, x, ctx.shape, scales, weight, wanted)
        return found[0], None, found[1], None, None


if hasattr(aten, "_fused_rms_norm_backward"):

    @handles(aten.rms_norm)
    def _undecomposed(op, args, kwargs):
        """Handle the operation in inference mode, in which it arrives undecomposed."""
        x, shape, weight, eps = (*args, None, None)[:4]
        if _is_fused(x, weight):
            return aten._fused_rms_norm(x, shape, weight, eps)[0]
        return run(op, args, kwargs)

    @handles(aten._fused_rms_norm)
    def _run(op, args, kwargs):
        """Compute it by the operations that it consists of, and charge one kernel."""
        call = Call(op, args, kwargs)
        out = op.func(*call.inner_args, **call.inner_kwargs)
        wrapped = wrap_all(call, out)
        launch(call, *cost(call, out), wrapped)
        return wrapped

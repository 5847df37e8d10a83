"""Operations that PyTorch takes apart for simulated tensors otherwise than for CUDA's.

`F.ctc_loss` takes lengths in host tensors. For CUDA PyTorch reads them as numbers; for tensors of a
class of its own it divides the losses by the lengths as they are: by a tensor on another device.
And the backward pass of `F.mish` has one kernel on CPU and CUDA, elsewhere it is nine.
"""

import functools

import torch

from d2lmini.sim.backend.ops import aten
from d2lmini.sim.backend.run import run
from d2lmini.sim.backend.tensor import SimTensor, handles

_KEY = torch._C.DispatchKey.AutogradMeta  # where C++ looks for operations on our tensors
_KEYS = torch._C.DispatchKeySet(_KEY)


def _with_numbers(args):
    """Return the arguments with lists as lengths; None if no length is a host tensor."""
    lengths = args[2:4]
    if not any(isinstance(n, torch.Tensor) and not isinstance(n, SimTensor) for n in lengths):
        return None
    numbers = [n.tolist() if isinstance(n, torch.Tensor) else n for n in lengths]
    return (*args[:2], *numbers, *args[4:])


@handles(aten.ctc_loss)
def _ctc_loss(func, args, kwargs):
    """In inference mode the operation arrives whole."""
    numbers = _with_numbers(args)
    if numbers is None:
        return run(func, args, kwargs)
    return run(aten.ctc_loss.IntList, numbers, kwargs)


def register(library) -> None:
    """Let `library` do for simulated tensors what PyTorch does for CUDA's."""
    for name, choose in (("ctc_loss.Tensor", _ctc_kernel), ("mish_backward", _mish_kernel)):
        own = torch.library.get_kernel(f"aten::{name}", _KEY)
        library.impl(name, choose(functools.partial(own.call_boxed, _KEYS)), "AutogradMeta")


def _ctc_kernel(own):
    def ctc_loss(*args):
        numbers = _with_numbers(args) if isinstance(args[0], SimTensor) else None
        return own(*args) if numbers is None else aten.ctc_loss.IntList(*numbers)

    return ctc_loss


def _mish_kernel(own):
    def mish_backward(*args):
        if torch.is_grad_enabled() or not isinstance(args[0], SimTensor):
            return own(*args)
        with torch._C._AutoDispatchBelowAutograd():
            return aten.mish_backward(*args)

    return mish_backward

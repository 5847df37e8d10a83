"""`F.ctc_loss` with lengths in host tensors, which CUDA takes.

CUDA reads them as numbers. For tensors of a class of its own, PyTorch divides the losses by the
lengths as they are: by a tensor on another device.
"""

import torch

from d2lmini.sim.backend.ops import aten
from d2lmini.sim.backend.run import run
from d2lmini.sim.backend.tensor import SimTensor, handles

_KEY = torch._C.DispatchKey.AutogradMeta  # where C++ looks for the operation on our tensors


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
    """Let `library` read the lengths before PyTorch takes the operation apart."""
    own = torch.library.get_kernel("aten::ctc_loss.Tensor", _KEY)
    keys = torch._C.DispatchKeySet(_KEY)

    def ctc_loss(*args):
        numbers = _with_numbers(args) if isinstance(args[0], SimTensor) else None
        if numbers is None:
            return own.call_boxed(keys, *args)
        return aten.ctc_loss.IntList(*numbers)

    library.impl("ctc_loss.Tensor", ctc_loss, "AutogradMeta")

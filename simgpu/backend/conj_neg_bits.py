"""Complex numbers: operations that conjugate inside, computed from inside a dispatch.

PyTorch conjugates by setting a bit, which the kernels of special dispatch keys act on later. While
Python handles an operation these keys are switched off, also for what that operation calls itself:
``linalg.pinv`` would then multiply by a matrix that was never conjugated.
"""

import torch

_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.Conjugate)
_KEYS |= torch._C.DispatchKeySet(torch._C.DispatchKey.Negative)
_KEYS |= torch._C.DispatchKeySet(torch._C.DispatchKey.ZeroTensor)


def compute(func, args, kwargs, tensors):
    """Return ``func(*args, **kwargs)``; `tensors` are those among the arguments."""
    if any(t.is_complex() for t in tensors):
        return compute_complex(func, args, kwargs)
    return func(*args, **kwargs)  # the bits arise from complex numbers alone


def compute_complex(func, args, kwargs):
    """As `compute`, where some of the tensors have complex numbers."""
    included = torch._C._dispatch_tls_local_include_set()
    excluded = torch._C._dispatch_tls_local_exclude_set() - _KEYS
    with torch._C._ForceDispatchKeyGuard(included, excluded):
        return func(*args, **kwargs)


def resolve(tensor):
    """Return a tensor without such bits: a wrapper around it could not show them."""
    if tensor.is_conj() or tensor.is_neg():
        return tensor.resolve_conj().resolve_neg()
    return tensor

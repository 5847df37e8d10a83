"""Computing operations on complex tensors inside ``__torch_dispatch__``.

PyTorch conjugates lazily: it sets a bit, which the kernels of certain dispatch keys resolve later.
Inside ``__torch_dispatch__`` these keys are excluded, also for the operations that an operation
calls: ``linalg.pinv`` would then multiply by a matrix that was never conjugated.
"""

import torch

_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.Conjugate)
_KEYS |= torch._C.DispatchKeySet(torch._C.DispatchKey.Negative)
_KEYS |= torch._C.DispatchKeySet(torch._C.DispatchKey.ZeroTensor)


def compute(func, args, kwargs, tensors):
    """Return ``func(*args, **kwargs)``; `tensors` are the tensors among the arguments."""
    if any(t.is_complex() for t in tensors):
        return compute_complex(func, args, kwargs)
    return func(*args, **kwargs)  # only complex numbers lead to such bits


def compute_complex(func, args, kwargs):
    """Return ``func(*args, **kwargs)`` if some of the tensors are complex."""
    included = torch._C._dispatch_tls_local_include_set()
    excluded = torch._C._dispatch_tls_local_exclude_set() - _KEYS
    with torch._C._ForceDispatchKeyGuard(included, excluded):
        return func(*args, **kwargs)


def resolve(tensor):
    """Return a tensor without conjugate and negative bits, which a wrapper could not carry."""
    if tensor.is_conj() or tensor.is_neg():
        return tensor.resolve_conj().resolve_neg()
    return tensor

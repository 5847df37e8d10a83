"""Kernels of `torch.nn.SyncBatchNorm` for the CPU and for shapes; PyTorch has them for CUDA only.

Statistics are per channel (dimension 1), over all other dimensions.
"""

from types import SimpleNamespace

import torch

from simgpu.clock.current import is_numeric

_libraries: list = []


def _stats(x, eps):
    dims = _reduced_dims(x)
    x = x.to(_accumulation_dtype(x))
    return x.mean(dims), torch.rsqrt(x.var(dims, correction=0) + eps)


def _gather_stats_with_counts(x, means, invstds, running_mean, running_var, momentum, eps, counts):
    counts = counts.view(-1, 1)
    total = counts.sum()
    mean = (means * counts).sum(0) / total
    variances = invstds.pow(-2) - eps
    squares = (counts * (variances + (means - mean).square())).sum(0)  # of deviations from the mean
    for running, new in ((running_mean, mean), (running_var, squares / (total - 1))):
        if running is not None:
            running.mul_(1 - momentum).add_(momentum * new)
    return mean, torch.rsqrt(squares / total + eps)


def _elemt(x, weight, bias, mean, invstd, eps):
    out = (x - _expand(mean, x)) * _expand(invstd, x)
    out = out if weight is None else out * _expand(weight, x)
    return (out if bias is None else out + _expand(bias, x)).to(x.dtype)


def _backward_reduce(grad, x, mean, invstd, weight, input_g, weight_g, bias_g):
    dims = _reduced_dims(x)
    grad = grad.to(_accumulation_dtype(x))
    sum_grad = grad.sum(dims)
    sum_grad_x = (grad * (x - _expand(mean, x))).sum(dims)
    return sum_grad, sum_grad_x, sum_grad_x * invstd, sum_grad.clone()


def _backward_elemt(grad, x, mean, invstd, weight, sum_grad, sum_grad_x, count):
    total = count.sum()
    centred = (x - _expand(mean, x)) * _expand(invstd.square() * sum_grad_x / total, x)
    scale = invstd if weight is None else invstd * weight
    return ((grad - _expand(sum_grad / total, x) - centred) * _expand(scale, x)).to(x.dtype)


def _reduced_dims(x):
    return [dim for dim in range(x.dim()) if dim != 1]


def _expand(values, x):
    """Reshape values, one per channel, to broadcast over `x`."""
    return values.view(-1, *[1] * (x.dim() - 2))


def _accumulation_dtype(x):
    return torch.promote_types(x.dtype, torch.float32)


_KERNELS = {
    "batch_norm_stats": _stats,
    "batch_norm_gather_stats_with_counts": _gather_stats_with_counts,
    "batch_norm_elemt": _elemt,
    "batch_norm_backward_reduce": _backward_reduce,
    "batch_norm_backward_elemt": _backward_elemt,
}


def register() -> None:
    """Register these kernels with PyTorch, once per process."""
    if _libraries:
        return
    library = torch.library.Library("aten", "IMPL")
    for name, kernel in _KERNELS.items():
        library.impl(name, kernel, "CPU")
        library.impl(name, kernel, "Meta")  # for shapes alone
    _libraries.append(library)


class _Torch:
    """What PyTorch's code of SyncBatchNorm calls ``torch``.

    It drops the statistics of empty inputs, unless it runs in a CUDA graph: how many are left
    depends on values. On a machine with shapes alone it must not drop any, but takes as long.
    """

    def __init__(self):
        self.cuda = SimpleNamespace(
            is_available=lambda: not is_numeric() or torch.cuda.is_available(),
            is_current_stream_capturing=lambda: (
                torch.cuda.is_current_stream_capturing() if is_numeric() else self._drop_none()
            ),
        )

    def __getattr__(self, name):
        return getattr(torch, name)

    @staticmethod
    def _drop_none():
        """Do with other tensors what PyTorch does with the counts, means and deviations."""
        given = torch.ones(2, 1, device=torch.accelerator.current_accelerator())
        mask = torch.ones(2, dtype=torch.bool, device=given.device)
        for _ in range(3):
            given[mask]
        return True


def replacements() -> dict:
    """Return the replacements of PyTorch's names while ranks run."""
    return {"torch.nn.modules._functions:torch": _Torch()}

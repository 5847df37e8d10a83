"""The operations of `torch.nn.SyncBatchNorm`, which PyTorch has for CUDA only, on the CPU.

Statistics are those of the channels, dimension 1, over all other dimensions.
"""

import torch

_libraries: list = []


def _stats(x, eps):
    dims = _all_but_channels(x)
    x = x.to(_accurate(x))
    return x.mean(dims), torch.rsqrt(x.var(dims, correction=0) + eps)


def _gather_stats_with_counts(x, means, invstds, running_mean, running_var, momentum, eps, counts):
    counts = counts.view(-1, 1)
    total = counts.sum()
    mean = (means * counts).sum(0) / total
    variances = invstds.pow(-2) - eps
    squares = (counts * (variances + (means - mean).square())).sum(0)  # of the distances from mean
    for running, new in ((running_mean, mean), (running_var, squares / (total - 1))):
        if running is not None:
            running.mul_(1 - momentum).add_(momentum * new)
    return mean, torch.rsqrt(squares / total + eps)


def _elemt(x, weight, bias, mean, invstd, eps):
    out = (x - _spread(mean, x)) * _spread(invstd, x)
    out = out if weight is None else out * _spread(weight, x)
    return (out if bias is None else out + _spread(bias, x)).to(x.dtype)


def _backward_reduce(grad, x, mean, invstd, weight, input_g, weight_g, bias_g):
    dims = _all_but_channels(x)
    grad = grad.to(_accurate(x))
    sum_grad = grad.sum(dims)
    sum_grad_x = (grad * (x - _spread(mean, x))).sum(dims)
    return sum_grad, sum_grad_x, sum_grad_x * invstd, sum_grad.clone()


def _backward_elemt(grad, x, mean, invstd, weight, sum_grad, sum_grad_x, count):
    total = count.sum()
    centred = (x - _spread(mean, x)) * _spread(invstd.square() * sum_grad_x / total, x)
    scale = invstd if weight is None else invstd * weight
    return ((grad - _spread(sum_grad / total, x) - centred) * _spread(scale, x)).to(x.dtype)


def _all_but_channels(x):
    return [dim for dim in range(x.dim()) if dim != 1]


def _spread(values, x):
    """Reshape one value a channel so that it fits `x`."""
    return values.view(-1, *[1] * (x.dim() - 2))


def _accurate(x):
    return torch.promote_types(x.dtype, torch.float32)


_KERNELS = {
    "batch_norm_stats": _stats,
    "batch_norm_gather_stats_with_counts": _gather_stats_with_counts,
    "batch_norm_elemt": _elemt,
    "batch_norm_backward_reduce": _backward_reduce,
    "batch_norm_backward_elemt": _backward_elemt,
}


def register() -> None:
    """Give PyTorch these kernels, once a process."""
    if _libraries:
        return
    library = torch.library.Library("aten", "IMPL")
    for name, kernel in _KERNELS.items():
        library.impl(name, kernel, "CPU")
    _libraries.append(library)

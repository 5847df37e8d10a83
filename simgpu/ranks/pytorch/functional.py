"""Functional collectives on simulated tensors, as DTensor calls them.

They return immediately; ``wait_tensor``, which PyTorch inserts, waits for their results.
"""

import torch
import torch.distributed as dist

from simgpu.backend.pytorch.replacements import find
from simgpu.backend.tensor import handles
from simgpu.clock import current
from simgpu.ranks.process import torch_internals

_REDUCTIONS = {
    "sum": dist.ReduceOp.SUM,
    "avg": dist.ReduceOp.AVG,
    "product": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
    "band": dist.ReduceOp.BAND,
    "bor": dist.ReduceOp.BOR,
    "bxor": dist.ReduceOp.BXOR,
}


def _group(name):
    if isinstance(name, dist.ProcessGroup):
        return name
    return find(f"{torch_internals.C10D}:_resolve_process_group")(name)


def _options(kind, reduction=None, root=None):
    options = kind()
    options.asyncOp = True
    if reduction is not None:
        options.reduceOp = _REDUCTIONS[reduction.lower()]
    if root is not None:
        options.rootRank = root
    return options


def _all_reduce_(x, reduction, name):
    _group(name).allreduce([x], _options(dist.AllreduceOptions, reduction))
    return x


def _all_reduce(x, reduction, name):
    return _all_reduce_(x.clone(memory_format=torch.contiguous_format), reduction, name)


def _all_gather(x, size, name, out=None):
    if out is None:
        out = x.new_empty((x.shape[0] * size, *x.shape[1:]) if x.dim() else (size,))
    _group(name).all_gather_single(out, x.contiguous())
    return out


def _reduce_scatter(x, reduction, size, name, out=None):
    if out is None:
        out = x.new_empty((x.shape[0] // size, *x.shape[1:]))
    options = _options(dist.ReduceScatterOptions, reduction)
    _group(name).reduce_scatter_single(out, x.contiguous(), options)
    return out


def _all_to_all(x, output_sizes, input_sizes, name):
    out = x.new_empty((sum(output_sizes), *x.shape[1:]))
    _group(name).all_to_all_single(out, x.contiguous(), output_sizes, input_sizes)
    return out


def _broadcast_(x, root, name):
    _group(name).broadcast([x], _options(dist.BroadcastOptions, root=root))
    return x


def _broadcast(x, root, name):
    return _broadcast_(x.clone(memory_format=torch.contiguous_format), root, name)


def _wait(x):
    current.ranks.works.wait_for(x)
    return x


def _shard_dim_alltoall(x, gather_dim, shard_dim, name):
    """Gather one dimension of a tensor and split another, for DTensor."""
    parts = torch.stack([part.contiguous() for part in x.chunk(_group(name).size(), shard_dim)])
    out = torch.empty_like(parts)
    _group(name).all_to_all_single(out.view(-1), parts.view(-1)).wait()
    return torch.cat(list(out.unbind(0)), dim=gather_dim)


def _wrap_for_autograd(x):
    return find("torch.distributed._functional_collectives:AsyncCollectiveTensor")(x)


def _each(one):
    """Return a version of the collective `one` for several tensors."""

    def many(tensors, *args):
        return [one(tensor, *args) for tensor in tensors]

    return many


_IN_C10D = {
    "all_reduce": _all_reduce, "all_reduce_": _all_reduce_,
    "all_reduce_coalesced": _each(_all_reduce), "all_reduce_coalesced_": _each(_all_reduce_),
    "all_gather_into_tensor": _all_gather, "all_gather_into_tensor_out": _all_gather,
    "all_gather_into_tensor_coalesced": _each(_all_gather),
    "reduce_scatter_tensor": _reduce_scatter, "reduce_scatter_tensor_out": _reduce_scatter,
    "reduce_scatter_tensor_coalesced": _each(_reduce_scatter),
    "all_to_all_single": _all_to_all, "broadcast": _broadcast, "broadcast_": _broadcast_,
    "wait_tensor": _wait, "_wrap_tensor_autograd": _wrap_for_autograd,
}  # fmt: skip
# FSDP's helpers, run on simulated tensors: each of their operations is charged.
_IN_FSDP = {
    "all_gather_copy_in": "all_gather_copy_in_cuda",
    "split_with_sizes_copy": "split_with_sizes_copy",
    "chunk_cat": "chunk_cat",
}
_registered: list = []


def register() -> None:
    """Register these as PyTorch's operators for simulated tensors, once per process."""
    if _registered:
        return
    for name, function in _IN_C10D.items():
        if hasattr(torch.ops._c10d_functional, name):
            _register(getattr(torch.ops._c10d_functional, name), function)
    _register(find("torch.ops._dtensor:shard_dim_alltoall"), _shard_dim_alltoall)
    for name, helper in _IN_FSDP.items():
        function = find(f"{torch_internals.FSDP}._fsdp_collectives:{helper}")
        _register(getattr(torch.ops.fsdp, name), function)
    _registered.append(True)


def _register(packet, function):
    handles(packet)(lambda op, args, kwargs: function(*args, **kwargs))

"""Compute the values of collectives from the tensors of all ranks, in rank order.

Each function reads `given` and writes `filled`, the inputs and the outputs: lists over ranks of
lists of CPU tensors. The outputs of a rank that does not run are None. An output of host tensors
may lie in an input, so what other ranks get of that is read before anything is written.
"""

import torch
from torch.distributed import ReduceOp

from simgpu.ranks.process import torch_internals

_PAIRWISE = {
    ReduceOp.MAX: torch.maximum,
    ReduceOp.MIN: torch.minimum,
    ReduceOp.PRODUCT: torch.mul,
    ReduceOp.BAND: torch.bitwise_and,
    ReduceOp.BOR: torch.bitwise_or,
    ReduceOp.BXOR: torch.bitwise_xor,
}


def reduce_tensors(tensors, op) -> torch.Tensor:
    """Reduce one tensor of every rank, in rank order."""
    kind, dtype = torch_internals.kind_of_reduction(op), tensors[0].dtype
    if dtype.itemsize == 1 and dtype.is_floating_point:  # the CPU cannot add float8
        return reduce_tensors([tensor.float() for tensor in tensors], op).to(dtype)
    if kind in _PAIRWISE:
        result = tensors[0]
        for tensor in tensors[1:]:
            result = _PAIRWISE[kind](result, tensor)
        return result
    result = tensors[0].clone()
    for tensor in tensors[1:]:
        result += tensor
    if kind == ReduceOp.AVG:
        result = result / len(tensors) if _is_real(result) else _truncate(result, len(tensors))
    elif kind == ReduceOp.PREMUL_SUM:
        result *= torch_internals.factor_of_reduction(op)
    return result


def all_reduce(given, filled, op):
    """Reduce the tensors of all ranks, and give all ranks the result."""
    for i in range(len(given[0])):
        result = reduce_tensors([tensors[i].reshape(-1) for tensors in given], op)
        for tensors in filter(None, filled):
            tensors[i].copy_(result.reshape(tensors[i].shape))


def reduce(given, filled, op, root):
    """Reduce the tensors of all ranks, and give the root the result."""
    for i in range(len(filled[root] or ())):
        output = filled[root][i]
        result = reduce_tensors([tensors[i].reshape(-1) for tensors in given], op)
        output.copy_(result.reshape(output.shape))


def broadcast(given, filled, root):
    """Copy the root's tensors to all ranks."""
    for rank, tensors in enumerate(filled):
        for i, tensor in enumerate(tensors or ()):
            if rank != root:
                tensor.copy_(given[root][i].reshape(tensor.shape))


def all_gather(given, filled):
    """Gather one tensor of every rank on all ranks: in one tensor for each, or in a single one."""
    parts = [tensors[0].clone() for tensors in given]
    for outputs in filter(None, filled):
        if len(outputs) == len(parts) and all(
            o.numel() == p.numel() for o, p in zip(outputs, parts, strict=True)
        ):
            for output, part in zip(outputs, parts, strict=True):
                output.copy_(part.reshape(output.shape))
        else:
            (output,) = outputs
            output.copy_(torch.cat([part.reshape(-1) for part in parts]).view(output.shape))


def reduce_scatter(given, filled, op):
    """Reduce the tensors of all ranks, and give each rank its part of the result."""
    size, results = len(given), {}
    for rank, outputs in enumerate(filled):
        if outputs is None:
            continue
        parts = [
            tensors[rank] if len(tensors) == size > 1 else _part(tensors[0], size, rank)
            for tensors in given
        ]
        results[rank] = reduce_tensors(parts, op)
    for rank, result in results.items():
        filled[rank][0].copy_(result.reshape(filled[rank][0].shape))


def gather(given, filled, root):
    """Gather one tensor of every rank on the root."""
    parts = [tensors[0] for tensors in given]
    parts[root] = parts[root].clone()
    for output, part in zip(filled[root] or (), parts, strict=bool(filled[root])):
        output.copy_(part)


def scatter(given, filled, root):
    """Send one of the root's tensors to each rank."""
    parts = [part.clone() for part in given[root]]
    for outputs, part in zip(filled, parts, strict=True):
        if outputs is not None:
            outputs[0].copy_(part)


def all_to_all(given, filled):
    """Send part `j` of rank `i` to rank `j`, as its part `i`."""
    parts = [[part.clone() for part in tensors] for tensors in given]
    for j, outputs in enumerate(filled):
        for i, output in enumerate(outputs or ()):
            output.copy_(parts[i][j].reshape(output.shape))


def send(given, filled):
    """Copy the tensor of the first of two ranks to the second."""
    filled[1][0].copy_(given[0][0].reshape(filled[1][0].shape))


def copy(given, filled):
    """Copy a tensor of one rank to another of the same."""
    filled[0][0].copy_(given[0][0].reshape(filled[0][0].shape))


def _is_real(tensor):
    return tensor.is_floating_point() or tensor.is_complex()


def _truncate(total, size):
    """Divide integers towards zero, as NCCL does."""
    return torch.div(total, size, rounding_mode="trunc")


def _part(tensor, size, rank):
    """Return part number `rank` of a tensor for `size` ranks."""
    return tensor.reshape(size, tensor.numel() // size)[rank]

"""Which types NCCL and gloo transport and reduce.

NCCL's are in PyTorch's ``NCCLUtils.hpp``, its reductions in ``ProcessGroupNCCL.cpp``; gloo's have
been tried out. PyTorch passes complex tensors on as pairs of real numbers, but not to every call.
"""

import torch
from torch.distributed import ReduceOp

from simgpu.ranks.communication.checks.refusal import dtype, refuse
from simgpu.ranks.process import torch_internals

_ON_BOTH = {
    torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
}  # fmt: skip
_FLOAT8 = {torch.float8_e4m3fn, torch.float8_e5m2}
_NCCL = _ON_BOTH | _FLOAT8 | {torch.float8_e4m3fnuz, torch.float8_e5m2fnuz}
_NCCL_SCALES = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_BITWISE = ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR
_COMPLEX = ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM
_TAKE_COMPLEX = "all_reduce", "reduce", "broadcast"


def check_types(rank, call, tensors, gpu) -> None:
    """Check that tensors have one type, and one that can be sent; `gpu` is None on the host."""
    first = tensors[0].dtype
    for tensor in tensors:
        if tensor.dtype != first:
            refuse(
                rank, call, f"gets tensors of {dtype(tensors[0])} and of {dtype(tensor)}",
                "give inputs and outputs of one type",
            )  # fmt: skip
    if first in (_ON_BOTH if gpu is None else _NCCL):
        return
    if first.is_complex and call in _TAKE_COMPLEX:
        return
    remedy = "send torch.view_as_real(x)" if first.is_complex else "send x.view(torch.uint8)"
    refuse(
        rank, call, f"gets a tensor of {dtype(tensors[0])}, which {_library(gpu)} does not know",
        f"{remedy}, or convert it",
    )  # fmt: skip


def check_reduction(rank, call, op, tensor, gpu) -> None:
    """Check that a reduction is defined for the type of a tensor."""
    kind, type_ = torch_internals.kind_of_reduction(op), tensor.dtype
    problem = _problem_on_host(kind, type_) if gpu is None else _problem(kind, type_, gpu)
    if type_.is_complex and kind not in _COMPLEX:
        problem = "complex numbers have no order and are sent as pairs", "use sum or avg"
    if problem:
        name = torch_internals.name_of_reduction(op)
        refuse(rank, call, f"reduces {dtype(tensor)} by {name}: {problem[0]}", problem[1])


def _problem(kind, type_, gpu):
    """Return why NCCL cannot reduce a type, and the remedy; None if it can."""
    if kind in _BITWISE:
        return "NCCL has no bitwise reductions", (
            "reduce bools with ReduceOp.MAX (any) or MIN (all), or gather the masks"
        )
    if kind == ReduceOp.AVG and type_ == torch.bool:
        return "NCCL has no average of bools", "average x.float(), or use ReduceOp.MAX or MIN"
    if kind == ReduceOp.PREMUL_SUM and type_ not in _NCCL_SCALES and not type_.is_complex:
        return "NCCL scales floating-point numbers only", "multiply before, and use ReduceOp.SUM"
    if type_.itemsize == 1 and type_.is_floating_point:
        if type_ not in _FLOAT8:
            return "NCCL cannot add this kind of float8", "reduce x.bfloat16()"
        if "float8" not in gpu.flops:
            return f"NCCL cannot add float8 on {gpu.name}", "reduce x.bfloat16()"
    return None


def _problem_on_host(kind, type_):
    if kind == ReduceOp.PREMUL_SUM:
        return "gloo, which PyTorch uses for host tensors, has no premul_sum", "multiply before"
    if kind == ReduceOp.AVG and not (type_.is_floating_point or type_.is_complex):
        return "gloo, which PyTorch uses for host tensors, averages floats only", "use ReduceOp.SUM"
    if kind in _BITWISE and type_.is_floating_point:
        return "floats have no bits to combine", "use integers or bools"
    return None


def _library(gpu):
    return "gloo, which PyTorch uses for host tensors," if gpu is None else "NCCL"

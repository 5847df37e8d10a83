"""The table of calls: what each of them asks of its tensors.

Every function takes the `Caller`, the outputs and the inputs of one call (lists of tensors), and
raises a `RanksError` for what NCCL, or for host tensors gloo, refuses or turns into wrong numbers.
"""

from typing import NamedTuple

from simgpu import user_frame
from simgpu.backend.tensor import SimTensor
from simgpu.ranks.communication.checks import memory, sizes, types
from simgpu.ranks.communication.checks.refusal import count, refuse
from simgpu.ranks.process.scheduler import RanksError


class Caller(NamedTuple):
    """The rank that calls.

    Attributes
    ----------
    rank : int
        The rank among all.
    own, size : int
        The rank in the group, and the number of members.
    takes : set of bool
        Which tensors the group takes: whether they are on the host.
    """

    rank: int
    own: int
    size: int
    takes: set


def check_owner(caller, rank):
    """Check that the rank that runs uses a group object of its own."""
    if rank != caller.rank:
        raise RanksError(
            f"rank {rank} communicates ({user_frame.line()}) in a group that rank {caller.rank} "
            "has made. Ranks share the objects that the caller has made, such as a list or a "
            "variable of an enclosing function: each holds the value of the last rank that "
            "set it. Keep groups in objects that each rank creates (a mesh, a module), or "
            "assign them to a global variable, of which each rank has its own"
        )


def all_reduce(caller, outputs, inputs, op):
    """Check the tensors of one or several reductions in place."""
    wanted = memory.is_contiguous if len(inputs) == 1 else memory.is_dense
    on_gpu = _check(caller, "all_reduce", outputs, wanted, op=op)
    if on_gpu and len(inputs) > 1:
        memory.check_aliases(caller.rank, "all_reduce", [], outputs)


def broadcast(caller, tensors, root):
    """Check the tensor of a broadcast."""
    _check_root(caller, "broadcast", root)
    _check(caller, "broadcast", tensors, memory.is_contiguous)


def reduce(caller, tensors, op, root):
    """Check the tensor of a reduction to one rank."""
    _check_root(caller, "reduce", root)
    _check(caller, "reduce", tensors, memory.is_contiguous, op=op)


def all_gather_single(caller, output, input):
    """Check a gathering in one tensor."""
    rank, call = caller.rank, "all_gather"
    on_gpu = _check(caller, call, [input, output], memory.is_contiguous)
    sizes.check_gathered(rank, call, input, output, caller.size, "output")
    if on_gpu:
        memory.check_formats(rank, call, [input], [output])
        memory.check_aliases_of_parts(rank, call, input, output, caller.own)


def all_gather(caller, outputs, inputs):
    """Check a gathering in a list, whose tensors may differ in size."""
    rank, call = caller.rank, "all_gather"
    sizes.check_list(rank, call, "output", outputs, caller.size)
    on_gpu = _check(caller, call, inputs, memory.is_contiguous, outputs)
    sizes.check_slot(rank, call, inputs[0], outputs[caller.own], "input", "output")
    if not on_gpu:
        sizes.check_shapes(rank, call, inputs[0], outputs)
    elif not _have_one_size(outputs):  # of one size: PyTorch gathers elsewhere, and copies
        memory.check_layout(rank, call, [*inputs, *outputs], memory.is_plain)
        memory.check_aliases(rank, call, inputs, outputs, caller.own)


def all_gather_coalesced(caller, inputs):
    """Refuse the gathering of several tensors in lists, which NCCL does not have."""
    if any(isinstance(tensor, SimTensor) for tensor in inputs):
        refuse(
            caller.rank, "all_gather_coalesced", "gets tensors on a GPU; NCCL has no such call",
            "call all_gather_single for each, inside torch.distributed._coalescing_manager()",
        )  # fmt: skip


def reduce_scatter_single(caller, output, input, op):
    """Check a reduction of which each rank gets a part."""
    rank, call = caller.rank, "reduce_scatter"
    on_gpu = _check(caller, call, [output, input], memory.is_contiguous, op=op)
    sizes.check_gathered(rank, call, output, input, caller.size, "input")
    if on_gpu:
        memory.check_formats(rank, call, [input], [output])
        memory.check_aliases_of_parts(rank, call, output, input, caller.own)


def reduce_scatter(caller, outputs, inputs, op):
    """Check a reduction of lists, whose tensors may differ in size."""
    rank, call = caller.rank, "reduce_scatter"
    sizes.check_list(rank, call, "input", inputs, caller.size)
    on_gpu = _check(caller, call, outputs, memory.is_plain, inputs, op=op)
    sizes.check_slot(rank, call, outputs[0], inputs[caller.own], "output", "input")
    if not on_gpu:
        sizes.check_shapes(rank, call, outputs[0], inputs)
    elif not _have_one_size(inputs):
        memory.check_layout(rank, call, inputs, memory.is_plain)
        memory.check_aliases(rank, call, inputs, outputs, caller.own)


def all_to_all(caller, outputs, inputs):
    """Check the parts that a rank sends and receives."""
    rank, call = caller.rank, "all_to_all"
    sizes.check_list(rank, call, "input", inputs, caller.size)
    sizes.check_list(rank, call, "output", outputs, caller.size)
    if _check(caller, call, [*inputs, *outputs], memory.is_contiguous):
        memory.check_aliases(rank, call, inputs, outputs, caller.own)


def all_to_all_single(caller, output, input, output_sizes, input_sizes):
    """Check an exchange in one tensor; return the parts of the output and of the input."""
    rank, call = caller.rank, "all_to_all"
    if _check(caller, call, [input, output], memory.is_contiguous):
        memory.check_aliases(rank, call, [input], [output], 0 if caller.size == 1 else None)
    else:
        memory.check_layout(rank, call, [input, output], memory.is_contiguous)
    return [
        sizes.split(rank, call, tensor, parts, what, caller.size)
        for tensor, parts, what in ((output, output_sizes, "output"), (input, input_sizes, "input"))
    ]


def gather(caller, outputs, inputs, root):
    """Check a gathering on one rank, which alone has outputs."""
    _check_root(caller, "gather", root)
    _check_root_list(caller, "gather", "output", inputs[0], outputs, root)
    if _check(caller, "gather", [*inputs, *outputs], memory.is_contiguous) and outputs:
        memory.check_formats(caller.rank, "gather", inputs, outputs)
        memory.check_aliases(caller.rank, "gather", inputs, outputs, root)


def scatter(caller, outputs, inputs, root):
    """Check a distribution from one rank, which alone has inputs."""
    _check_root(caller, "scatter", root)
    _check_root_list(caller, "scatter", "input", outputs[0], inputs, root)
    if _check(caller, "scatter", [*outputs, *inputs], memory.is_contiguous) and inputs:
        memory.check_formats(caller.rank, "scatter", inputs, outputs)
        memory.check_aliases(caller.rank, "scatter", inputs, outputs, root)


def message(caller, call, tensors, peer):
    """Check the tensor of a message, which may have any order in memory, but no gaps."""
    if not 0 <= peer < caller.size:
        refuse(
            caller.rank, call, f"names rank {peer} of a group of {count(caller.size, 'rank')}",
            "name one of its members",
        )  # fmt: skip
    if not _check(caller, call, tensors, memory.is_dense):
        memory.check_layout(caller.rank, call, tensors, memory.is_plain)


def _check(caller, call, tensors, wanted, others=(), op=None):
    """Check types, reduction and layout (of `tensors`, not of `others`); return if on a GPU."""
    every = [*tensors, *others]
    if not every:
        refuse(caller.rank, call, "gets no tensor", "give at least one")
    _check_kinds(caller, call, every)
    on_gpu = all(isinstance(tensor, SimTensor) for tensor in every)
    if len(caller.takes) == 1:
        _check_devices(caller, call, every)
    gpu = every[0]._device.gpu if on_gpu else None
    types.check_types(caller.rank, call, every, gpu)
    if op is not None:
        types.check_reduction(caller.rank, call, op, tensors[0], gpu)
    if on_gpu:
        memory.check_layout(caller.rank, call, tensors, wanted)
    return on_gpu


def _check_kinds(caller, call, tensors):
    for tensor in tensors:
        if hasattr(tensor, "to_local"):  # not isinstance: importing DTensor takes a second
            refuse(
                caller.rank, call, "gets a DTensor, which is spread over a mesh already",
                "give what is on this rank, x.to_local(), or redistribute it",
            )  # fmt: skip
        if not isinstance(tensor, SimTensor) and tensor.device.type == "meta":
            refuse(
                caller.rank, call, "gets a tensor on the device meta, which has no values",
                "move it to a GPU with to_empty()",
            )  # fmt: skip


def _check_devices(caller, call, tensors):
    for tensor in tensors:
        on_host = not isinstance(tensor, SimTensor)
        if on_host in caller.takes:
            continue
        what = f"rank {caller.rank} calls {call} ({user_frame.line()})"
        if on_host:
            raise RanksError(  # PyTorch's own sentence first
                f"No backend type associated with device type cpu: {what} with a tensor on the "
                "host in a group for tensors on GPUs; move the tensor there"
            )
        raise RanksError(
            f"{what} with a tensor on a GPU in a group of gloo, which would send it through the "
            "host: that is not simulated. Use NCCL, by the backend 'nccl' or 'cpu:gloo,cuda:nccl'"
        )


def _check_root(caller, call, root):
    if not 0 <= root < caller.size:
        refuse(
            caller.rank, call, f"names root {root} of a group of {count(caller.size, 'rank')}",
            "name one of its members",
        )  # fmt: skip


def _check_root_list(caller, call, what, one, many, root):
    if caller.own == root:
        sizes.check_list(caller.rank, call, what, many, caller.size)
        sizes.check_shapes(caller.rank, call, one, many)


def _have_one_size(tensors):
    return len({tensor.shape for tensor in tensors}) == 1

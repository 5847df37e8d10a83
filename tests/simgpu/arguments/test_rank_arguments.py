"""Arguments of collectives and messages that NCCL refuses, or turns into wrong numbers.

NCCL's rules are read from PyTorch's source (``ProcessGroupNCCL.cpp``, ``NCCLUtils.hpp``,
``Utils.hpp``), not from runs on GPUs; those of gloo, for host tensors, are compared with processes.
"""

import re
import sys

import pytest
import torch
import torch.distributed as dist
from support.group_calls import message, ones, run, with_channels_last
from support.programs import refused_arguments
from torch import multiprocessing as mp
from torch.distributed import ReduceOp
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


def spread(device):
    """Return a DTensor."""
    return distribute_tensor(ones(device, 4), init_device_mesh(device.type, (2,)), [Shard(0)])


TYPES = {
    "a DTensor": (
        lambda r, d: dist.all_reduce(spread(d)),
        "all_reduce", "gets a DTensor, which is spread over a mesh already; give what is on this r",
    ),
    "a tensor without values": (
        lambda r, d: dist.all_reduce(torch.ones(4, device="meta")),
        "all_reduce", "gets a tensor on the device meta, which has no values; move it to a GPU",
    ),
    "average of bools": (
        lambda r, d: dist.all_reduce(ones(d, 4).bool(), op=ReduceOp.AVG),
        "all_reduce", "reduces bool by avg: NCCL has no average of bools; average x.float()",
    ),
    "bits": (
        lambda r, d: dist.all_reduce(ones(d, 4).int(), op=ReduceOp.BAND),
        "all_reduce", "reduces int32 by band: NCCL has no bitwise reductions; reduce bools",
    ),
    "bits to one rank": (
        lambda r, d: dist.reduce(ones(d, 4).int(), 0, op=ReduceOp.BXOR),
        "reduce", "reduces int32 by bxor: NCCL has no bitwise reductions",
    ),
    "scaled integers": (
        lambda r, d: dist.all_reduce(ones(d, 4).int(), op=dist._make_nccl_premul_sum(2.0)),
        "all_reduce", "reduces int32 by premul_sum: NCCL scales floating-point numbers only; mul",
    ),
    "greatest complex": (
        lambda r, d: dist.reduce(ones(d, 4, dtype=torch.complex64), 0, op=ReduceOp.MAX),
        "reduce", "reduces complex64 by max: complex numbers have no order",
    ),
    "complex in a call that knows none": (
        lambda r, d: dist.reduce_scatter(
            ones(d, 2, dtype=torch.complex64), [ones(d, 2, dtype=torch.complex64)] * 2
        ),
        "reduce_scatter", "a tensor of complex64, which NCCL does not know; send torch.view_as_re",
    ),
    "int16": (
        lambda r, d: dist.broadcast(ones(d, 4).short(), 0),
        "broadcast", "a tensor of int16, which NCCL does not know; send x.view(torch.uint8)",
    ),
    "int16 in a message": (
        lambda r, d: dist.send(ones(d, 4).short(), 1) if r == 0 else None,
        "send", "a tensor of int16, which NCCL does not know",
    ),
    "float8 on a GPU without": (
        lambda r, d: dist.all_reduce(ones(d, 4).to(torch.float8_e4m3fn)),
        "all_reduce", "reduces float8_e4m3fn by sum: NCCL cannot add float8 on a100; reduce x.bf",
    ),
    "another float8": (
        lambda r, d: dist.all_reduce(ones(d, 4).to(torch.float8_e5m2fnuz)),
        "all_reduce", "reduces float8_e5m2fnuz by sum: NCCL cannot add this kind of float8",
    ),
    "output of another type": (
        lambda r, d: dist.all_gather_into_tensor(ones(d, 16, dtype=torch.float64), ones(d, 8)),
        "all_gather", "gets tensors of float32 and of float64; give inputs and outputs of one type",
    ),
    "part of another type": (
        lambda r, d: dist.reduce_scatter_tensor(ones(d, 2).half(), ones(d, 4)),
        "reduce_scatter", "gets tensors of float16 and of float32; give inputs and outputs of one",
    ),
}  # fmt: skip
LAYOUTS = {
    "all_reduce": (
        lambda r, d: dist.all_reduce(ones(d, 3, 2).t()),
        "all_reduce", r"shape (2, 3) with strides (1, 2), which is not contiguous; NCCL sends mem",
    ),
    "asynchronous": (
        lambda r, d: dist.all_reduce(ones(d, 3, 2).t(), async_op=True),
        "all_reduce", r"shape (2, 3) with strides (1, 2), which is not contiguous",
    ),
    "repeated": (
        lambda r, d: dist.broadcast(ones(d, 1).expand(4), 0),
        "broadcast", "shape (4,) with strides (0,), which is not contiguous",
    ),
    "output of a gathering": (
        lambda r, d: dist.all_gather_into_tensor(ones(d, 4, 8).t(), ones(d, 4, 4)),
        "all_gather", "shape (8, 4) with strides (1, 8), which is not contiguous",
    ),
    "input of a list": (
        lambda r, d: dist.all_gather([ones(d, 2, 2), ones(d, 2, 2)], ones(d, 2, 2).t()),
        "all_gather", "shape (2, 2) with strides (1, 2), which is not contiguous",
    ),
    # Here NCCL would silently add the wrong elements: PyTorch does not look at the strides.
    "input of a reduction": (
        lambda r, d: dist.reduce_scatter_tensor(ones(d, 2, 4), ones(d, 4, 4).t()),
        "reduce_scatter", "shape (4, 4) with strides (1, 4), which is not contiguous",
    ),
    "channels last from channels first": (
        lambda r, d: dist.all_gather_into_tensor(ones(d, 4, 3, 4, 4), with_channels_last(d)),
        "all_gather", "an input with strides (48, 1, 12, 3) and an output with strides (48, 16, 4,",
    ),
    "exchange": (
        lambda r, d: dist.all_to_all_single(ones(d, 4, 4), ones(d, 4, 4).t()),
        "all_to_all", "shape (4, 4) with strides (1, 4), which is not contiguous",
    ),
    "coalesced": (
        lambda r, d: dist.all_reduce_coalesced([ones(d, 4), ones(d, 4, 2)[:, 0]]),
        "all_reduce", "shape (4,) with strides (2,), which is not contiguous",
    ),
    "message with gaps": (
        lambda r, d: dist.send(ones(d, 4, 4)[:, 0], 1) if r == 0 else None,
        "send", "shape (4,) with strides (4,), which is not contiguous",
    ),
}  # fmt: skip
SIZES = {
    "outputs": (
        lambda r, d: dist.all_gather([ones(d, 4) for _ in range(3)], ones(d, 4)),
        "all_gather", "gets 3 outputs for 2 ranks; give one for each rank of the group",
    ),
    "inputs": (
        lambda r, d: dist.reduce_scatter(ones(d, 4), [ones(d, 4)] * 3),
        "reduce_scatter", "gets 3 inputs for 2 ranks; give one",
    ),
    "exchanged": (
        lambda r, d: dist.all_to_all([ones(d, 4), ones(d, 4)], [ones(d, 4)]),
        "all_to_all", "gets 1 input for 2 ranks; give one",
    ),
    "gathered on one rank": (
        lambda r, d: dist.gather(ones(d, 4), [ones(d, 4)] * 3 if r == 0 else None),
        "gather", "gets 3 outputs for 2 ranks; give one",
    ),
    "scattered": (
        lambda r, d: dist.scatter(ones(d, 4), [ones(d, 4)] * 3 if r == 0 else None),
        "scatter", "gets 3 inputs for 2 ranks; give one",
    ),
    "gathered elements": (
        lambda r, d: dist.all_gather_into_tensor(ones(d, 7), ones(d, 4)),
        "all_gather", "an input of 4 elements and an output of 7 for 2 ranks; the output",
    ),
    "elements of a list": (
        lambda r, d: dist.all_gather([ones(d, 5), ones(d, 5)], ones(d, 4)),
        "all_gather", "an input of 4 elements, but an output for this rank of 5; give",
    ),
    "reduced elements": (
        lambda r, d: dist.reduce_scatter_tensor(ones(d, 3), ones(d, 4)),
        "reduce_scatter", "an output of 3 elements and an input of 4 for 2 ranks; the input",
    ),
    "coalesced elements": (
        lambda r, d: functional.wait_tensor(
            dist.group.WORLD.reduce_scatter_single_coalesced([ones(d, 3)], [ones(d, 4)])
        ),
        "reduce_scatter", "an output of 3 elements and an input of 4 for 2 ranks",
    ),
    "reduced elements of a list": (
        lambda r, d: dist.reduce_scatter(ones(d, 3), [ones(d, 4), ones(d, 4)]),
        "reduce_scatter", "an output of 3 elements, but an input for this rank of 4; give both",
    ),
    "shapes": (
        lambda r, d: dist.gather(ones(d, 4), [ones(d, 2, 2)] * 2 if r == 0 else None),
        "gather", "gets tensors of shapes (4,) and (2, 2); give all the same shape",
    ),
    "an uneven exchange": (
        lambda r, d: dist.all_to_all_single(ones(d, 5), ones(d, 5)),
        "all_to_all", "an output of 5 elements, which 2 ranks cannot share equally; give output_sp",
    ),
    "sum of splits": (
        lambda r, d: dist.all_to_all_single(ones(d, 4), ones(d, 4), [1, 2], [2, 2]),
        "all_to_all", "output_split_sizes [1, 2], with sum 3, for an output of 4 rows",
    ),
    "number of splits": (
        lambda r, d: dist.all_to_all_single(ones(d, 4), ones(d, 4), [2, 2], [1, 1, 2]),
        "all_to_all", "input_split_sizes [1, 1, 2], with sum 4, for an input of 4 rows and 2 ranks",
    ),
    "coalesced lists": (
        lambda r, d: dist.all_gather_coalesced([[ones(d, 4)], [ones(d, 4)]], [ones(d, 4)]),
        "all_gather_coalesced", "gets tensors on a GPU; NCCL has no such call; call all_gather_si",
    ),
    "no tensor": (
        lambda r, d: dist.group.WORLD.allreduce_coalesced([], dist.AllreduceCoalescedOptions()),
        "all_reduce", "gets no tensor; give at least one",
    ),
    "root": (
        lambda r, d: dist.broadcast(ones(d, 4), 5),
        "broadcast", "names root 5 of a group of 2 ranks; name one of its members",
    ),
    "negative root": (
        lambda r, d: dist.reduce(ones(d, 4), -1),
        "reduce", "names root -1 of a group of 2 ranks; name one",
    ),
    "peer": (
        lambda r, d: dist.irecv(ones(d, 4), -1),
        "recv", "names rank -1 of a group of 2 ranks; name one",
    ),
}  # fmt: skip
ALIASES = {
    "exchange in place": (
        lambda r, d: (lambda x: dist.all_to_all_single(x, x))(ones(d, 4)),
        "all_to_all", "an input and an output that share memory",
    ),
    "one output for all, of several sizes": (
        lambda r, d: (lambda x: dist.all_gather([x[:3], x], ones(d, 3 + r)))(ones(d, 4)),
        "all_gather", "two outputs that share memory",
    ),
    "slot of another rank": (
        lambda r, d: (lambda x: dist.all_gather_into_tensor(x, x[4 - 4 * r :][:4]))(ones(d, 8)),
        "all_gather", "share memory, but not as part 0 of it",
    ),
    "part of another rank": (
        lambda r, d: (lambda x: dist.reduce_scatter_tensor(x[1:5], x))(ones(d, 8)),
        "reduce_scatter", "share memory, but not as part 0 of it",
    ),
    "slot of another rank on the root": (
        lambda r, d: (lambda x: dist.gather(x[1], [*x] if r == 0 else None))(ones(d, 2, 4)),
        "gather", "an input and an output that share memory",
    ),
}  # fmt: skip
REFUSED = {
    f"{kind}: {name}": case
    for kind, cases in (("type", TYPES), ("layout", LAYOUTS), ("size", SIZES), ("alias", ALIASES))
    for name, case in cases.items()
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    program, call, expected = REFUSED[name]
    text = message(program)
    assert re.match(rf"rank [01]: {call} \(test_rank_arguments\.py:\d+\) ", text)
    assert expected in text
    assert "; " in text, "a remedy"


def test_the_line_is_that_of_the_call():
    lines = {}

    def program(rank, device):
        lines[rank] = sys._getframe().f_lineno + 1
        dist.all_reduce(ones(device, 3, 2).t())

    text = message(program)
    assert f"rank 0: all_reduce (test_rank_arguments.py:{lines[0]})" in text


def test_a_list_gathered_in_one_output_keeps_the_last_part():
    """Muon pads its lists with one tensor: PyTorch copies the parts there one after another."""

    def program(rank, device):
        pad = torch.empty(4, device=device)
        first = torch.empty(4, device=device)
        dist.all_gather([first, pad, pad], torch.full((4,), rank + 1.0, device=device))
        return first.tolist(), pad.tolist()

    assert run(program, 3) == [([1.0] * 4, [3.0] * 4)] * 3


def test_a_list_exchanged_in_place():
    def program(rank, device):
        parts = [ones(device, 2), ones(device, 2)]
        dist.all_to_all(parts, parts)

    assert "all_to_all" in (text := message(program))
    assert "an input and an output that share memory" in text


def test_splits_that_do_not_match_between_ranks():
    def program(rank, device):
        dist.all_to_all_single(ones(device, 3), ones(device, 3), [1, 2], [1, 2])

    text = message(program)
    assert "in all_to_all, rank 1 has 1 element for rank 0 (test_rank_arguments.py:" in text
    assert "which expects 2 (test_rank_arguments.py:" in text


def test_uneven_lists_that_do_not_match_between_ranks():
    def gathered(rank, device):
        sizes = [1, 2, 3] if rank == 0 else [1, 3, 2] if rank == 2 else [1, 2, 3]
        dist.all_gather([ones(device, n) for n in sizes], ones(device, sizes[rank]))

    def scattered(rank, device):
        sizes = [[1, 2, 3], [1, 2, 3], [2, 1, 3]][rank]
        dist.reduce_scatter(ones(device, sizes[rank]), [ones(device, n) for n in sizes])

    assert "in all_gather, rank 2 has 2 elements for rank 0" in message(gathered, k=3)
    assert "in reduce_scatter, rank 2 has 2 elements for rank 0" in message(scattered, k=3)


def test_a_format_that_only_one_rank_has():
    def program(rank, device):
        x = with_channels_last(device)
        dist.all_reduce(x.contiguous() if rank == 0 else x)

    text = message(program)
    assert "rank 1 calls all_reduce of 96 float32 with strides (48, 1, 12, 3), sum" in text
    assert "rank 0 called all_reduce of 96 float32, sum" in text


def test_tensors_on_host_and_device():
    text = message(lambda r, d: dist.all_gather_into_tensor(torch.ones(8), ones(d, 4)))
    assert "tensors on different devices; move them" in text


def run_call(name):
    run(lambda rank, device: refused_arguments.calls(rank)[name]())


@pytest.mark.process
@pytest.mark.slow
def test_host_tensors_follow_gloo(tmp_path):
    mp.start_processes(refused_arguments.run_in_process, (str(tmp_path),), 2, start_method="spawn")
    by_gloo = torch.load(tmp_path / "out.pt")
    names = refused_arguments.calls(0)
    here = {name: refused_arguments.outcome(lambda name=name: run_call(name)) for name in names}
    assert here == by_gloo
    assert set(by_gloo.values()) == {"accepted", "refused"}

"""The oracle makes what is recorded, and counts what kernels touch.

Dynamo builds its tables of PyTorch's functions when it is first used, and simulated GPUs replace
some of these: run this in a process of its own (``test_record_of_inductor.py`` does).
"""

import pytest
import torch
from support.inductor import record
from support.inductor.oracle import kernels_of
from support.inductor.programs import PROGRAMS, Program

pytestmark = pytest.mark.filterwarnings("ignore:dynamo_pgo force disabled")
ROWS, COLUMNS = 4096, 1024
SIZE = 4 * ROWS * COLUMNS


@pytest.mark.parametrize("name", ["llama", "mlp"])
def test_the_record_is_what_inductor_makes(name):
    assert record.release() == torch.__version__.partition("+")[0]
    assert kernels_of(PROGRAMS[name]("cpu")) == record.read()[name]


def matrix(**facts):
    return torch.ones(ROWS, COLUMNS, **facts)


def indices(count):
    return torch.zeros(count, dtype=torch.long)


def kernels(function, *inputs):
    """Return the kernels of a function without gradients: kind, bytes read, bytes written."""
    (graph,) = kernels_of(Program(function, inputs, None))
    return [(kernel.kind, kernel.reads, kernel.writes) for kernel in graph.kernels]


def test_a_chain_reads_and_writes_once():
    assert kernels(lambda x: (2 * x + 1).relu(), matrix()) == [("pointwise", SIZE, SIZE)]


def test_a_softmax_is_one_kernel():
    assert kernels(lambda x: x.softmax(-1), matrix()) == [("row", SIZE, SIZE)]


def test_a_sum_of_columns_is_split():
    first, second = kernels(lambda x: x.sum(0), matrix())
    assert first == ("column", SIZE, second[1])
    assert second == ("column", second[1], 4 * COLUMNS)


def test_a_part_counts_as_a_part():
    part = 4 * 1024 * COLUMNS
    assert kernels(lambda x: x[:1024].softmax(-1), matrix()) == [("row", part, part)]


def test_a_gather_counts_as_what_it_gathers():
    part = 4 * 64 * COLUMNS
    found = kernels(lambda table, chosen: table[chosen].softmax(-1), matrix(), indices(64))
    assert found == [("row", part + 8 * 64, part)]


def test_a_scatter_reads_and_writes_what_it_adds_to():
    def add(table, chosen, values):
        table.index_put_((chosen,), values, accumulate=True)

    part = 4 * 64 * COLUMNS
    found = kernels(add, matrix(), indices(64), torch.ones(64, COLUMNS))
    assert found == [("pointwise", 2 * part + 8 * 64, part)]


def test_lists_are_read_and_written_once():
    program = PROGRAMS["optimizer"]("cpu")
    size = sum(x.nbytes for x in program.inputs[0])
    assert kernels(program.function, *program.inputs) == [("foreach", 4 * size, 3 * size)]


def test_a_forward_pass_keeps_what_it_makes_for_the_backward_pass_alone():
    def function(x):
        return (x.exp() @ x.t()).sum()

    forward, backward = kernels_of(Program(function, (matrix(requires_grad=True),), lambda x: x))
    assert (forward.direction, backward.direction) == ("forward", "backward")
    assert forward.saved == SIZE

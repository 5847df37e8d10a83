"""Operators that ranks define with `torch.library`: each calls its own, as processes do."""

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

import simgpu as sim


class Own(TorchDispatchMode):
    """A mode in which an operator does something else."""


def define(rank):
    """Define operators in all ways, taking turns with the other ranks; return what they give."""
    dist.init_process_group()
    device, of_others = torch.device("sim", rank), dist.barrier
    library = torch.library.Library("test_own", "DEF")
    library.define("thrice(Tensor x) -> Tensor")
    of_others()
    library.impl("thrice", lambda x: x * (3 + rank), "CompositeExplicitAutograd")

    @torch.library.custom_op("test_own::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * (2 + rank)

    @torch.library.custom_op("test_own::increase", mutates_args={"x"})
    def increase(x: torch.Tensor) -> None:
        x.add_(1 + rank)

    of_others()
    twice.register_fake(torch.empty_like)
    twice.register_autograd(lambda context, gradient: gradient * (20 + rank))
    twice.register_torch_dispatch(Own, lambda mode, function, types, args, kwargs: y - 10)
    of_others()
    x, y = torch.ones(1, device=device, requires_grad=True), torch.ones(1, device=device)
    twice(x).sum().backward()
    increase(y)
    with Own():
        in_mode = twice(y)
    results = twice(x), x.grad, torch.ops.test_own.twice(y), torch.ops.test_own.thrice(y)
    return [*(result.item() for result in results), y.item(), in_mode.item()]


def test_each_rank_calls_its_own_functions():
    expected = [[2, 20, 4, 6, 2, -8], [3, 21, 9, 12, 3, -7]]
    assert sim.spawn(define, nprocs=2) == expected
    assert sim.spawn(define, nprocs=2) == expected  # again in this process


def test_an_operator_goes_with_the_last_rank_that_has_it():
    def program(rank):
        dist.init_process_group()
        library = torch.library.Library("test_left", "FRAGMENT")
        library.define("one(Tensor x) -> Tensor")
        library.impl("one", lambda x: x + rank, "CompositeExplicitAutograd")
        dist.barrier()
        if rank:
            library._destroy()
        dist.barrier()
        return rank or torch.ops.test_left.one(torch.ones(1)).item()

    assert sim.spawn(program, nprocs=2) == [1, 1]


def test_a_rank_registers_by_a_dispatch_key():
    """As PyTorch does when a rank is the first to use `vmap`."""
    torch.library.define("test_key::one", "(Tensor x) -> Tensor")

    def program(rank):
        dist.init_process_group()
        library = torch.library.Library("test_key", "IMPL", "CompositeExplicitAutograd")
        library.impl("one", lambda x: x + rank)
        dist.barrier()
        return torch.ops.test_key.one(torch.ones(1)).item()

    assert sim.spawn(program, nprocs=2) == [1, 2]


def test_a_library_without_ranks_is_pytorchs_own():
    library = torch.library.Library("test_alone", "DEF")
    library.define("one(Tensor x) -> Tensor")
    library.impl("one", lambda x: x + 1, "CPU")
    assert torch.ops.test_alone.one(torch.ones(1)).item() == 2
    assert type(library.m).__module__ == "torch._C"

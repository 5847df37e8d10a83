"""What chapters take from d2lmini.pages: it finds what is wrong, and times what it says."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

from d2lmini.pages import collectives, multiple_gpus_concise, tensor_parallel
from d2lmini.pages.collectives import is_exact_sum, message_seconds, ring, sum_seconds

HDR = {"network": "hdr", "nodes": 2}
pytestmark = pytest.mark.process


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("numel", [1, 7])  # fewer numbers than ranks, too
def test_the_ring_sums_over_all_ranks(n, numel):
    assert is_exact_sum(ring, n, numel)


def test_a_sum_is_checked_while_another_machine_is_in_use():
    with collectives.sim.machine(2):
        torch.ones(1, device=torch.accelerator.current_accelerator())
        assert is_exact_sum(ring, 2, 5)


def test_the_ring_sums_over_some_ranks_in_any_order():
    def program(rank):
        dist.init_process_group()
        x = torch.full((5,), 10.0**rank, device=torch.accelerator.current_accelerator())
        if rank != 1:
            ring(x, [3, 0, 2])
        return x.cpu()

    found = collectives.sim.spawn(program, nprocs=4)
    assert [x[0].item() for x in found] == [1101, 10, 1101, 1101]


def half(x):
    dist.all_reduce(x)
    x /= 2


def only_rank_0(x):
    dist.reduce(x, 0)


@pytest.mark.parametrize("wrong", [half, only_rank_0, lambda x: None])
def test_a_wrong_sum_is_found(wrong):
    assert is_exact_sum(dist.all_reduce, 3, 5)
    assert not is_exact_sum(wrong, 3, 5)


def test_twice_the_bytes_take_twice_as_long():
    short, one, two = (message_seconds(s, **HDR) for s in (4, 10**8, 2 * 10**8))
    assert (two - short) / (one - short) == pytest.approx(2, rel=0.02)
    short, one, two = (sum_seconds(ring, s, 2, **HDR) for s in (8, 10**8, 2 * 10**8))
    assert (two - short) / (one - short) == pytest.approx(2, rel=0.05)


def test_messages_begin_at_zero_and_have_a_span_on_both_ends():
    spans = collectives.messages(ring, 4000, 4, nodes=4, network="hdr")
    assert min(span.start for span in spans) == 0
    assert len(spans) == 2 * 4 * 6


class Half(nn.Linear):
    """A rank's share of the output features, or all of them with an error."""

    def __init__(self, whole, error):
        super().__init__(16, 16)
        self.load_state_dict(whole.state_dict())
        self.error = error

    def forward(self, x):
        return super().forward(x) + self.error


@pytest.mark.parametrize("error", [0.0, 0.5])
def test_a_split_module_that_differs_is_found(error):
    off = tensor_parallel.compare_with_one(
        lambda: nn.Linear(16, 16), lambda module: Half(module, error), nprocs=2
    )
    assert set(off) == {"output", "gradient", "after a step"}
    for value in off.values():
        assert value > 0.05 if error else value < 1e-6


def test_the_gradient_is_that_of_the_sum_of_all_losses():
    def by_rows(rows):
        return rows.sum(0).expand(3, -1)

    def sums(back):
        class Pair(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                dist.all_reduce(x := x.clone())
                return x

            @staticmethod
            def backward(ctx, gradient):
                return back(gradient)

        return Pair.apply

    def add_up(x):
        dist.all_reduce(x := x.clone())
        return x

    assert tensor_parallel.is_gradient(sums(add_up), by_rows)
    assert not tensor_parallel.is_gradient(sums(lambda gradient: gradient), by_rows)


def test_a_pass_takes_the_time_of_its_products():
    one, two = (
        tensor_parallel.pass_seconds(lambda w=w: nn.Linear(4096, w), (8192, 4096))
        for w in (4096, 8192)
    )
    assert 1.8 < two / one < 2.1
    forward = tensor_parallel.pass_seconds(
        lambda: nn.Linear(4096, 4096), (8192, 4096), forward=lambda module, x: module(x)
    )
    assert 2.5 < one / forward < 4


SKIPS = """import argparse
import torch
import torch.distributed as dist
argparse.ArgumentParser().parse_known_args()
dist.init_process_group("gloo")
x = torch.ones(3)
if dist.get_rank() == 1:
    dist.broadcast(x, 0)
dist.all_reduce(x)
"""


@pytest.mark.long
def test_lines_in_which_ranks_wait_are_those_of_the_script():
    code, text = multiple_gpus_concise.run_changed(SKIPS, 2, timeout=3)
    assert code != 0
    found = [(rank, number) for rank, number, *_ in multiple_gpus_concise.waiting_ranks(text)]
    assert found == [(0, 9), (1, 8)]


@pytest.mark.parametrize("calls", [0, 2])
def test_a_script_without_one_process_group_is_refused(calls):
    with pytest.raises(ValueError, match=f"has {calls} calls"):
        multiple_gpus_concise.run_changed("dist.init_process_group(None)\n" * calls, 2)


def test_losses_and_accuracies_are_read_in_their_order():
    text = "epoch 0: loss 2.25, accuracy 0.50\nwarning\nepoch 1: loss 1.50, accuracy 0.75\n"
    assert multiple_gpus_concise.losses_in(text).tolist() == [[2.25, 0.5], [1.5, 0.75]]


def test_all_reduces_of_the_last_run_are_counted():
    def program(rank, times):
        dist.init_process_group()
        x = torch.ones(3, device=torch.accelerator.current_accelerator())
        for _ in range(times):
            dist.all_reduce(x)
        dist.broadcast(x, 0)

    for times in (2, 0):
        collectives.sim.spawn(program, (times,), nprocs=2)
        assert multiple_gpus_concise.allreduces_sent() == times

"""Copies to the host that nobody has waited for: what they hold until somebody does."""

import pytest
import torch

import simgpu as sim


@pytest.mark.parametrize(
    "wait",
    [
        lambda d, event: sim.synchronize(),
        lambda d, event: sim.synchronize(d),
        lambda d, event: sim.current_stream(d).synchronize(),
        lambda d, event: event.synchronize(),
        lambda d, event: torch.ones(1, device=d).item(),
        lambda d, event: [None for _ in iter(event.query, True)],
    ],
)
def test_a_result_that_is_under_way_reads_as_nan_until_somebody_waits(wait):
    (device,) = sim.configure(1)
    x = torch.arange(6.0, device=device)
    buffer = sim.empty_pinned(6)
    copied = x.to("cpu", non_blocking=True)
    buffer.copy_(x, non_blocking=True)
    event = sim.current_stream(device).record_event()
    x += 1  # later work in the stream must not change what was copied before
    assert copied.isnan().all()
    assert buffer.isnan().all()
    torch.ones(3, 3) @ torch.ones(3, 3)  # host work alone waits for nothing
    assert copied.isnan().all()
    wait(device, event)
    assert copied.tolist() == buffer.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("dtype", "mark"),
    [
        (torch.int32, -(2**31)), (torch.int64, -(2**63)), (torch.uint8, 255), (torch.bool, True),
        (torch.int8, -128),
    ],
)  # fmt: skip
def test_integers_under_way_hold_a_mark(dtype, mark):
    (device,) = sim.configure(1)
    copied = torch.zeros(4, dtype=dtype, device=device).to("cpu", non_blocking=True)
    assert (copied == mark).all()
    sim.synchronize()
    assert (copied == 0).all()


def test_autograd_goes_through_a_copy_that_was_under_way():
    (device,) = sim.configure(1)
    x = torch.ones(3, device=device, requires_grad=True)
    y = (x * 2).to("cpu", non_blocking=True)
    z = y.sum()
    assert z.isnan()
    sim.synchronize()
    y.square().sum().backward()
    assert x.grad.tolist() == [8, 8, 8]


@pytest.mark.parametrize("part", [slice(None), slice(1, 3)])
@pytest.mark.parametrize("into", [False, True])
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_later_copy_of_the_stream_reads_what_an_earlier_one_brings(ranks, into, part):
    def program(rank):
        device = torch.accelerator.current_accelerator()
        x, buffer = torch.arange(6.0, device=device), sim.empty_pinned(6)
        buffer.copy_(x, non_blocking=True)
        y = torch.zeros(len(range(6)[part]), device=device)
        if into:
            y.copy_(buffer[part], non_blocking=True)
        else:
            y = buffer[part].to(device, non_blocking=True)
        assert buffer.isnan().all()
        torch.accelerator.synchronize()
        assert y.tolist() == buffer[part].tolist() == list(range(6))[part]

    sim.spawn(program, nprocs=ranks)


def test_a_copy_of_another_stream_does_not_wait_for_it():
    (device,) = sim.configure(1)
    buffer = sim.empty_pinned(6)
    other = torch.Stream(device)
    buffer.copy_(torch.ones(6, device=device), non_blocking=True)
    with other:
        y = buffer.to(device, non_blocking=True)
    sim.synchronize()
    assert y.isnan().all()
    assert buffer.tolist() == [1] * 6


def test_tensors_saved_in_pinned_memory_for_the_backward_pass():
    def program(rank):
        x = torch.full((4,), 2.0, device="sim", requires_grad=True)
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            y = (x * x * x).sum()
        y.backward()
        return x.grad.tolist()

    assert sim.spawn(program, nprocs=1) == [[12.0] * 4]

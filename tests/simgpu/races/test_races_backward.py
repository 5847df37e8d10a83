"""The race detector and autograd: on CUDA, backward runs in the streams of the forward pass."""

import pytest
import torch
from support.programs.race_programs import configure, parameters, races_in

import simgpu as sim

shapes_or_values = pytest.mark.parametrize("numerics", [True, False])


@shapes_or_values
def test_backward_runs_in_the_streams_of_the_forward_pass(numerics):
    """As on CUDA: whoever calls ``backward`` need not wait for the stream of the forward pass."""
    device, side = configure(numerics)
    third = sim.Stream(device)

    def program():
        main, w = sim.current_stream(device), parameters(device)
        for _ in range(3):
            side.wait_stream(main)
            with side:
                h = (w @ w).relu()
            third.wait_stream(side)
            with third:
                loss = h.square().sum()
            loss.backward()
            del h, loss
            with torch.no_grad():
                w -= 0.1 * w.grad
            w.grad = None

    assert races_in(program) is None


@shapes_or_values
def test_backward_through_two_gpus_and_their_side_streams(numerics):
    d0, d1, s0 = configure(numerics, k=2)
    s1 = sim.Stream(d1)

    def program():
        w0, w1 = parameters(d0), parameters(d1)
        for _ in range(2):
            for stream in (s0, s1):
                stream.wait_stream(sim.default_stream(stream.device))
            with s0:
                h = (w0 @ w0).relu()
                with s1:
                    loss = ((h.to(d1) @ w1).relu() * 2).sum()
            loss.backward()
            del h, loss
            with torch.no_grad():
                for w in (w0, w1):
                    w -= 0.1 * w.grad

    assert races_in(program) is None


def test_gradients_belong_to_the_stream_that_called_backward():
    device, side = configure()

    def program(caller, user):
        main, w = sim.current_stream(device), parameters(device)
        side.wait_stream(main)
        with side:
            loss = (w @ w).sum()
        caller.wait_stream(side)
        with caller:
            loss.backward()
        with user:
            w.grad + 1

    main, third = sim.current_stream(device), sim.Stream(device)
    assert races_in(program, side, side) is None
    assert races_in(program, main, main) is None
    assert races_in(program, third, third) is None
    assert "'add' in stream 0" in races_in(program, side, main)
    assert "'add' in stream 2" in races_in(program, main, third)


@shapes_or_values
@pytest.mark.parametrize("forgotten", ["", "wait_stream", "record_stream"])
def test_prefetching_beside_the_backward_pass(numerics, forgotten):
    """A copy stream that feeds a training loop: a ``backward`` in between must not hide a race."""
    device, copies = configure(numerics)
    batches = [sim.empty_pinned(4, 4) for _ in range(4)]

    def program():
        main, w = sim.current_stream(device), parameters(device)
        with copies:
            following = batches[0].to(device, non_blocking=True)
        for batch in batches[1:]:
            if forgotten != "wait_stream":
                main.wait_stream(copies)
            x = following
            if forgotten != "record_stream":
                x.record_stream(main)
            with copies:
                following = batch.to(device, non_blocking=True)
            (x @ w).sum().backward()

    race = races_in(program)
    assert (race is None) == (not forgotten)
    if forgotten == "wait_stream":
        assert "'mm' in stream 0" in race
        assert "'copy cpu -> sim:0' in stream 1" in race
    if forgotten == "record_stream":
        assert "that stream 0 of sim:0 uses, call tensor.record_stream(stream)" in race


def test_a_weight_that_changes_under_the_backward_pass():
    device, side = configure()

    def program(waits):
        main, w = sim.current_stream(device), parameters(device)
        loss = (w @ w).sum()
        side.wait_stream(main)
        with side:
            w.data.mul_(2)  # autograd does not see it
        if waits:
            main.wait_stream(side)
        loss.backward()

    assert races_in(program, True) is None
    assert "'mul' in stream 1" in races_in(program, False)


def test_a_hook_that_copies_gradients_in_a_stream_of_its_own():
    device, side = configure()

    def program(waits):
        w = parameters(device)
        buffer = sim.empty_pinned(4, 4)

        def leave(_):
            if waits:
                side.wait_stream(sim.current_stream(device))
            with side:
                buffer.copy_(w.grad, non_blocking=True)

        w.register_post_accumulate_grad_hook(leave)
        (w @ w).sum().backward()

    assert races_in(program, True) is None
    assert "'copy sim:0 -> cpu' in stream 1" in races_in(program, False)


def test_a_hook_in_the_middle_that_copies_in_a_stream_of_its_own():
    device, side = configure()

    def program(waits):
        def leave(gradient):
            if waits:
                side.wait_stream(sim.current_stream(device))
            with side:
                gradient.to("cpu", non_blocking=True)
            gradient.record_stream(side)

        h = parameters(device) @ torch.ones(4, 4, device=device)
        h.register_hook(leave)
        h.relu().sum().backward()

    assert races_in(program, True) is None
    assert "'copy sim:0 -> cpu' in stream 1" in races_in(program, False)

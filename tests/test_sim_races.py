"""The race detector: what it accuses, what it leaves alone, and what it says."""

import itertools
import threading
import warnings
from collections import Counter
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from d2lmini import sim
from d2lmini.collectives import allreduce_bucketed, allreduce_ring
from d2lmini.sim.races import detector as races
from d2lmini.sim.races.regions import contains, overlap, region
from d2lmini.training import get_params, init_params, train_batch

shapes_or_values = pytest.mark.parametrize("numerics", [True, False])


def races_in(program, *args):
    """Run a program; return what is said about its first race, None if there is none."""
    try:
        with sim.check_races():
            program(*args)
    except sim.RaceError as error:
        return str(error)
    return None


def configure(numerics=True, k=1):
    """Return the devices of a fresh machine, and a side stream of the first of them."""
    devices = sim.configure(k, gpu="v100", link="pcie3", numerics=numerics)
    return *devices, sim.Stream(devices[0])


# ---- the three classic mistakes, and the programs without them


@shapes_or_values
@pytest.mark.parametrize("waits", ["", "event", "stream", "host", "device", "event on the host"])
def test_a_stream_that_does_not_wait(numerics, waits):
    device, side = configure(numerics)

    def program():
        x = torch.ones(8, 8, device=device)
        x.relu()  # its memory may be that of y: another race, but not the one to speak of
        y = x @ x
        main = sim.current_stream(device)
        if waits == "event":
            side.wait_event(main.record_event())
        elif waits == "stream":
            side.wait_stream(main)
        elif waits == "host":
            main.synchronize()
        elif waits == "device":
            sim.synchronize(device)
        elif waits == "event on the host":
            main.record_event().synchronize()
        with side:
            y.to("cpu", non_blocking=True)
        sim.synchronize()

    race = races_in(program)
    assert (race is None) == bool(waits)
    if race:
        assert "'copy sim:0 -> cpu' in stream 1 of sim:0 (line" in race
        assert "reads a float32 tensor of shape (8, 8) that 'mm' in stream 0 of sim:0" in race
        assert "stream 1 of sim:0 should wait for stream 0 of sim:0 first" in race
        assert "wait_event" in race
        assert "wait_stream" in race


@shapes_or_values
@pytest.mark.parametrize("waits", [False, True])
def test_a_buffer_that_is_overwritten_too_early(numerics, waits):
    device, side = configure(numerics)

    def program():
        main, copied = sim.current_stream(device), sim.Event()
        buffer = torch.zeros(8, 8, device=device)
        for batch in (sim.empty_pinned(8, 8) for _ in range(3)):
            if waits:
                main.wait_event(copied)
            buffer.copy_(batch, non_blocking=True)  # while the result of the last one leaves
            buffer.mul_(2)
            side.wait_event(main.record_event())
            with side:
                buffer.to("cpu", non_blocking=True)
            copied.record(side)

    race = races_in(program)
    assert (race is None) == waits
    if race:
        assert "'copy cpu -> sim:0' in stream 0 of sim:0" in race
        assert "writes a float32 tensor of shape (8, 8)" in race
        assert "that 'copy sim:0 -> cpu' in stream 1 of sim:0" in race


@shapes_or_values
@pytest.mark.parametrize("size", [8, 600])  # below and above 1 MiB
@pytest.mark.parametrize("remedy", ["", "record_stream", "keep", "wait", "host"])
def test_memory_that_is_reused_without_record_stream(numerics, size, remedy):
    device, side = configure(numerics)

    def program():
        main, kept = sim.current_stream(device), []
        x = torch.ones(size, size, device=device)
        for _ in range(3):
            y = x @ x  # in the memory of y before last
            side.wait_event(main.record_event())
            with side:
                y.to("cpu", non_blocking=True)
            if remedy == "record_stream":
                y.record_stream(side)
            elif remedy == "keep":
                kept.append(y)
            elif remedy == "wait":
                main.wait_stream(side)
            elif remedy == "host":
                side.synchronize()

    race = races_in(program)
    assert (race is None) == bool(remedy)
    if race:
        line, shape = program.__code__.co_firstlineno, f"float32 tensor of shape ({size}, {size})"
        assert f"'mm' in stream 0 of sim:0 (line {line + 4} of program) writes a {shape}" in race
        assert f"memory may be that of a dropped {shape}" in race
        assert f"'copy sim:0 -> cpu' in stream 1 of sim:0 (line {line + 7} of program)" in race
        assert "that stream 1 of sim:0 uses, call tensor.record_stream(stream)" in race


def test_every_race_is_named_by_the_lines_of_the_program():
    device, side = configure()
    frame = {}

    def first():
        frame["first"] = first.__code__.co_firstlineno + 2
        return torch.ones(2, device=device)

    def second(x):
        frame["second"] = second.__code__.co_firstlineno + 3
        with side:
            return torch.nn.functional.relu(x)

    race = races_in(lambda: second(first()))
    assert f"'relu' in stream 1 of sim:0 (line {frame['second']} of second)" in race
    assert f"'ones' in stream 0 of sim:0 (line {frame['first']} of first)" in race


# ---- which memory may be reused


def drop_in_use(device, side, num_bytes=2**21, maker=None):
    """Make a tensor, let the side stream use it, and drop it."""
    maker = maker or sim.current_stream(device)
    with maker:
        x = torch.ones(num_bytes // 4, device=device)
    side.wait_stream(maker)
    with side:
        x.to("cpu", non_blocking=True)


def test_a_drop_is_no_race_unless_the_memory_is_used_again():
    device, side = configure()
    main = sim.current_stream(device)

    def waits_in_time():
        drop_in_use(device, side)
        y = torch.empty(2**19, device=device)  # takes memory, touches nothing
        main.wait_stream(side)
        y.zero_()

    assert races_in(lambda: drop_in_use(device, side)) is None
    assert races_in(waits_in_time) is None
    assert "dropped" in races_in(
        lambda: (drop_in_use(device, side), torch.ones(2**19, device=device))
    )


def test_only_the_stream_that_made_it_gets_the_memory_back():
    device, side = configure()
    other = sim.Stream(device)

    def program(user, maker=None):
        drop_in_use(device, side, maker=maker)
        with user:
            torch.ones(2**19, device=device)

    main = sim.current_stream(device)
    assert races_in(program, other) is None
    assert races_in(program, side) is None
    assert "that stream 1 of sim:0 uses" in races_in(program, main)
    assert "that stream 1 of sim:0 uses" in races_in(program, other, other)


@pytest.mark.parametrize(("dropped", "new"), [(2**20, 2**20 + 4), (2**20 + 4, 2**20)])
def test_small_and_large_blocks_do_not_share_memory(dropped, new):
    device, side = configure()

    def program(num_bytes):
        drop_in_use(device, side, dropped)
        torch.ones(num_bytes // 4, device=device)

    assert races_in(program, new) is None
    assert "dropped" in races_in(program, dropped)
    assert "dropped" in races_in(program, dropped // 2 if dropped <= 2**20 else 8 * dropped)


def test_memory_of_a_new_tensor_may_be_busy_in_the_stream_that_made_it():
    device, side = configure()

    def program(waits):
        main = sim.current_stream(device)
        (torch.ones(8, 8, device=device) @ torch.ones(8, 8, device=device)).relu()
        buffer = torch.empty(8, 8, device=device)
        if waits:
            side.wait_stream(main)
        with side:
            buffer.fill_(1)

    assert races_in(program, True) is None
    race = races_in(program, False)
    assert "made in stream 0 of sim:0. There its memory may be that of a dropped" in race
    assert "record_stream" not in race


def test_record_stream_says_nothing_about_the_stream_that_made_the_tensor():
    device, side = configure()

    def program():
        x = torch.ones(4, device=device)
        x.record_stream(sim.current_stream(device))
        del x
        buffer = torch.empty(4, device=device)
        with side:
            buffer.fill_(1)

    assert "dropped" in races_in(program)


def test_every_part_of_a_new_tensor_may_be_busy():
    device, side = configure()
    third = sim.Stream(device)

    def program(waits):
        main = sim.current_stream(device)
        drop_in_use(device, side, 32)
        main.synchronize()
        x = torch.empty(8, device=device)
        third.wait_stream(side)
        with third:
            x[:4].fill_(1)
        if waits:
            main.wait_stream(side)
        x[4:].fill_(1)

    assert races_in(program, True) is None
    assert "that stream 1 of sim:0 uses" in races_in(program, False)


def test_record_stream_covers_the_stream_that_it_names_and_no_other():
    device, side = configure()
    third = sim.Stream(device)

    def program(*recorded):
        main = sim.current_stream(device)
        x = torch.ones(4, device=device)
        for stream in (side, third):
            stream.wait_stream(main)
            with stream:
                x.to("cpu", non_blocking=True)
        for stream in recorded:
            x.record_stream(stream)
        del x
        torch.ones(4, device=device)

    assert races_in(program, side, third) is None
    assert "that stream 2 of sim:0 uses" in races_in(program, side)
    assert "that stream 1 of sim:0 uses" in races_in(program, third)
    assert races_in(program, sim.current_stream(device)) is not None


# ---- what orders work


def test_waiting_for_an_event_orders_what_was_recorded_and_no_more():
    device, side = configure()

    def program(late):
        main, event = sim.current_stream(device), sim.Event()
        x = torch.ones(4, device=device)
        y = None if late else x + 1
        event.record(main)
        y = x + 1 if late else y
        side.wait_event(event)
        event.record(main)  # those who waited before keep waiting for the earlier mark
        with side:
            y * 2

    assert races_in(program, False) is None
    assert "'add' in stream 0" in races_in(program, True)


def test_an_event_that_was_never_recorded_orders_nothing():
    device, side = configure()

    def program():
        x = torch.ones(4, device=device)
        side.wait_event(sim.Event())
        with side:
            x * 2

    assert races_in(program) is not None


def test_order_goes_on_from_stream_to_stream():
    device, side = configure()
    third = sim.Stream(device)

    def program(links):
        x = torch.ones(4, device=device)
        if links > 0:
            side.wait_stream(sim.current_stream(device))
        if links > 1:
            third.wait_event(side.record_event())
        with third:
            x.mul_(2)

    assert races_in(program, 2) is None
    assert races_in(program, 1) is not None


def test_two_streams_may_read_and_the_writer_waits_for_both():
    device, side = configure()
    third = sim.Stream(device)

    def program(*waited):
        main = sim.current_stream(device)
        x = torch.ones(4, device=device)
        for stream in (side, third):
            stream.wait_stream(main)
            with stream:
                x + 1
        for stream in waited:
            main.wait_stream(stream)
        x.zero_()

    assert races_in(program, side, third) is None
    assert "'zero' in stream 0" in races_in(program, side)
    assert "'add' in stream 1" in races_in(program, third)


@pytest.mark.parametrize(
    ("wait", "orders"),
    [
        (lambda x, side: x.cpu(), True),
        (lambda x, side: x[0].item(), True),
        (lambda x, side: x.tolist(), True),
        (lambda x, side: x.nonzero(), True),
        (lambda x, side: x[x > 0], True),
        (lambda x, side: repr(x), True),
        (lambda x, side: sim.reset(), True),
        (lambda x, side: torch.ones(4).to(x.device), True),
        (lambda x, side: x.copy_(torch.ones(4)), True),
        (lambda x, side: x[torch.tensor([0, 1])], False),  # for the index, before it reads x
        (lambda x, side: [None for _ in iter(sim.current_stream(x.device).query, True)], True),
        (lambda x, side: [None for _ in iter(side.query, True)], False),
        (lambda x, side: side.synchronize(), False),
        (lambda x, side: sim.empty_pinned(4).to(x.device, non_blocking=True), False),
        (lambda x, side: torch.ones(4).to(x.device, non_blocking=True), False),
        (lambda x, side: x.to("cpu", non_blocking=True), False),
        (lambda x, side: x + 1, False),
    ],
)
def test_what_lets_the_host_wait_orders_all_that_follows(wait, orders):
    device, side = configure()

    def program():
        x = torch.ones(4, device=device)
        wait(x, side)
        with side:
            x.mul_(2)

    assert (races_in(program) is None) == orders


def test_time_does_not_order():
    device, side = configure()

    def program():
        x = torch.ones(4, device=device)
        with sim.host_ops("laptop4"):
            torch.ones(2000, 2000) @ torch.ones(2000, 2000)  # x was there long ago
        assert sim.now() > sim.current_stream(device).end
        with side:
            x * 2

    assert races_in(program) is not None


def test_copies_between_gpus_wait_for_both_sides_and_both_wait():
    d0, d1, side = configure(k=2)
    other = sim.Stream(d1)

    def program(source, target):
        x = torch.ones(4, device=d0)
        y = torch.zeros(4, device=d1)
        with source, target:
            y.copy_(x)
        x.zero_()
        y.zero_()

    assert races_in(program, sim.default_stream(d0), sim.default_stream(d1)) is None
    assert "reads a float32 tensor" in races_in(program, side, sim.default_stream(d1))
    assert "writes a float32 tensor" in races_in(program, sim.default_stream(d0), other)


def test_a_copy_between_gpus_that_has_to_be_scattered_ends_in_the_target_stream():
    d0, d1, _ = configure(k=2)
    third = sim.Stream(d1)

    def program(part):
        x, y = torch.ones(4, device=d0), torch.zeros(4, 4, device=d1)
        sim.synchronize()
        part(y).copy_(x)
        third.wait_stream(sim.current_stream(d0))
        with third:
            y.cpu()

    assert races_in(program, lambda y: y[0]) is None
    assert "'copy' in stream 0 of sim:1" in races_in(program, lambda y: y[:, 0])


# ---- views


def test_views_race_where_they_share_bytes():
    device, side = configure()

    def program(mine, yours):
        x = torch.ones(4, 6, device=device)
        side.wait_stream(sim.current_stream(device))
        mine(x).mul_(2)
        with side:
            yours(x).mul_(2)

    def race(mine, yours):
        return races_in(program, mine, yours) is not None

    assert not race(lambda x: x[:2], lambda x: x[2:])
    assert race(lambda x: x[:3], lambda x: x[2:])
    assert not race(lambda x: x[:, :2], lambda x: x[:, 2:])  # one lies in the gaps of the other
    assert race(lambda x: x[:, :3], lambda x: x[:, 2:])
    assert not race(lambda x: x[:, ::2], lambda x: x[:, 1::2])
    assert race(lambda x: x.t()[1:3], lambda x: x.view(-1)[13:14])
    assert not race(lambda x: x.t()[1:3], lambda x: x.view(-1)[12:13])


strided = st.integers(1, 3).flatmap(
    lambda dims: st.tuples(
        st.integers(0, 12),
        st.tuples(*[st.integers(1, 4)] * dims),
        st.tuples(*[st.integers(0, 9)] * dims),
        st.sampled_from([1, 2, 4, 8]),
    )
)


def bytes_of(offset, shape, strides, itemsize):
    """All bytes of a strided tensor, one by one."""
    return {
        (offset + sum(map(int.__mul__, index, strides))) * itemsize + byte
        for index in itertools.product(*map(range, shape))
        for byte in range(itemsize)
    }


@settings(max_examples=300, deadline=None, derandomize=True)
@given(one=strided, other=strided)
def test_overlap_is_exact(one, other):
    a, b = bytes_of(*one), bytes_of(*other)
    assert overlap(region(*one), region(*other)) == bool(a & b)
    if contains(region(*one), region(*other)):
        assert b <= a


def test_a_contiguous_region_is_one_run_of_bytes():
    whole = region(0, (4, 6), (6, 1), 4)
    assert whole == region(0, (24,), (1,), 4) == (0, ((1, 95),))
    assert contains(whole, region(1, (4, 2), (6, 1), 4))
    assert not contains(region(0, (4, 2), (6, 1), 4), whole)


# ---- host memory


@pytest.mark.parametrize("waits", [False, True])
def test_a_staging_buffer_is_filled_again_too_early(waits):
    device, _ = configure()
    staging = sim.empty_pinned(8)

    def program():
        main, moved = sim.current_stream(device), []
        for batch in torch.arange(16.0).view(2, 8):
            if waits:
                main.synchronize()
            staging.copy_(batch)
            moved.append(staging.to(device, non_blocking=True))

    race = races_in(program)
    assert (race is None) == waits
    if race:
        assert "'copy' on the host (line" in race
        assert "writes a float32 tensor of shape (8,) in pinned memory" in race
        assert "with which 'copy cpu -> sim:0' in stream 0 of sim:0" in race
        assert "event.synchronize()" in race


@pytest.mark.parametrize(
    "read",
    [
        lambda b: b.sum(), lambda b: b + 1, lambda b: b[2].item(), lambda b: float(b[1]),
        lambda b: torch.zeros(4).copy_(b), lambda b: torch.equal(b, torch.ones(4)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("waits", ["", "event", "another event"])
def test_a_result_that_is_read_too_early(read, waits):
    device, _ = configure()
    buffer = sim.empty_pinned(4)

    def program():
        stream = sim.current_stream(device)
        before = stream.record_event()
        buffer.copy_(torch.ones(4, device=device), non_blocking=True)
        after = stream.record_event()
        if waits:
            (after if waits == "event" else before).synchronize()
        read(buffer)

    race = races_in(program)
    assert (race is None) == (waits == "event")
    if race:
        assert "'copy sim:0 -> cpu' in stream 0 of sim:0" in race
        assert "reads" in race


def test_other_host_memory_is_nobodys_business():
    device, _ = configure()

    def program():
        buffer, source = sim.empty_pinned(4), torch.ones(4)
        x = source.to(device, non_blocking=True)  # CUDA has read ordinary memory by then
        source.zero_()
        buffer[:2].copy_(x[:2], non_blocking=True)
        buffer[2:].zero_()
        ordinary = torch.empty(4)
        ordinary.copy_(x, non_blocking=True)  # waits
        ordinary.add_(1)
        y = x.cpu()
        y.add_(1)

    assert races_in(program) is None


def test_two_streams_meet_in_a_pinned_buffer():
    device, side = configure()

    def program(waits):
        main, buffer = sim.current_stream(device), sim.empty_pinned(4)
        buffer.copy_(torch.ones(4, device=device), non_blocking=True)
        if waits:
            side.wait_stream(main)
        with side:
            buffer.to(device, non_blocking=True)

    assert races_in(program, True) is None
    assert "reads a float32 tensor of shape (4,) that 'copy sim:0 -> cpu'" in races_in(
        program, False
    )


# ---- the backward pass


def parameters(device):
    return torch.ones(4, 4, device=device, requires_grad=True)


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


# ---- random programs, compared with the whole graph of what comes before what

pick = st.integers(0, 11)
KINDS = (
    ["use"] * 4 + ["make"] * 2 + ["cover", "peer", "record", "wait_event", "wait_stream", "host"]
)


class Graph:
    """All that was issued, as numbered nodes: each with the set of those that come before it."""

    def __init__(self):
        self.before = []
        self.last = {}  # the last node in a stream; that of the host comes before all new ones

    def add(self, streams, *after):
        """Put a node into streams, behind the given nodes; None stands for none."""
        after = {*after, *(self.last.get(s) for s in (*streams, "host"))} - {None}
        self.before.append(after.union(*(self.before[node] for node in after)))
        self.last.update(dict.fromkeys(streams, len(self.before) - 1))
        return len(self.before) - 1


class Tensor:
    """A tensor on the simulated GPU, and all that was ever done to it."""

    def __init__(self, maker, earlier):
        self.maker = maker
        self.earlier = earlier  # tensors whose memory it may have got
        self.uses = []  # (node, first, last, writes)
        self.covered = set()  # by record_stream
        self.over = set()  # when it was dropped: nodes that end before its memory is used again

    def use(self, graph, node, first, last, writes):
        """Note a use; return whether an earlier one should come before it, and need not."""
        before = graph.before[node] | {node}
        races = any(
            old not in before and (writes or wrote) and first <= end and start <= last
            for old, start, end, wrote in self.uses
        ) or any(old not in before | past.over for past in self.earlier for old, *_ in past.uses)
        self.uses.append((node, first, last, writes))
        return races


class Program:
    """Does random steps. Each returns whether it makes a race, and the function that does it."""

    def __init__(self, num_streams):
        self.devices = sim.configure(2, numerics=False)
        self.streams = [sim.Stream(self.devices[0]) for _ in range(num_streams)]
        self.peer_stream = sim.Stream(self.devices[1])
        self.events = [sim.Event() for _ in range(2)]
        self.marks = [None] * 2  # the nodes that they mark
        self.graph, self.dropped, self.tensors = Graph(), [], [None] * 3
        for i in range(3):
            self.make(i % num_streams, i, 0)[1]()

    def step(self, kind, a, b, c):
        return getattr(self, kind)(a % len(self.streams), b, c)

    def use(self, s, i, c):
        tensor, writes = self.tensors[i % 3], c < 5
        first, last = ((0, 7), (0, 3), (4, 7))[c % 3]
        node = self.graph.add([s])

        def act():
            with self.streams[s]:
                part = tensor.value[first : last + 1]
                if writes:
                    part.mul_(2)
                else:
                    part.to("cpu", non_blocking=True)

        return tensor.use(self.graph, node, first, last, writes), act

    def peer(self, s, i, c):
        tensor, node = self.tensors[i % 3], self.graph.add([s, "peer"])

        def act():
            with self.streams[s], self.peer_stream:
                tensor.value.to(self.devices[1])

        return tensor.use(self.graph, node, 0, 7, False), act

    def make(self, s, i, c):
        past, graph = self.tensors[i % 3], self.graph
        if past is not None:
            ends = {graph.last.get(stream) for stream in past.covered} - {None}
            past.over = ends.union(*(graph.before[end] for end in ends))
            past.value = None  # dropped
            self.dropped.append(past)
        tensor = Tensor(s, [past for past in self.dropped if past.maker == s])
        self.tensors[i % 3] = tensor

        make = torch.empty if c % 2 else torch.ones

        def act():
            with self.streams[s]:
                tensor.value = make(8, device=self.devices[0])

        if make is torch.empty:
            return False, act
        return tensor.use(graph, graph.add([s]), 0, 7, True), act

    def cover(self, s, i, c):
        tensor = self.tensors[i % 3]
        if s != tensor.maker:
            tensor.covered.add(s)
        return False, lambda: tensor.value.record_stream(self.streams[s])

    def record(self, s, e, c):
        self.marks[e % 2] = self.graph.add([s])
        return False, lambda: self.events[e % 2].record(self.streams[s])

    def wait_event(self, s, e, c):
        self.graph.add([s], self.marks[e % 2])
        return False, lambda: self.streams[s].wait_event(self.events[e % 2])

    def wait_stream(self, s, t, c):
        self.graph.add([s], self.graph.last.get(t % len(self.streams)))
        return False, lambda: self.streams[s].wait_stream(self.streams[t % len(self.streams)])

    def host(self, s, e, c):
        if c % 2:
            self.graph.add(["host"], self.marks[e % 2])
            return False, self.events[e % 2].synchronize
        self.graph.add(["host"], self.graph.last.get(s))
        return False, self.streams[s].synchronize


def test_races_are_found_exactly_where_the_graph_has_them():
    """Most steps wait for all streams first, so that programs get long before the first race."""
    found = Counter()
    for seed in range(400):
        random = Random(seed)
        with sim.check_races():
            program = Program(random.choice((2, 3)))
            num_streams = len(program.streams)
            for _ in range(40):
                kind, a, b, c = random.choice(KINDS), *(random.randrange(12) for _ in range(3))
                orders = random.random() < (0.5 if kind == "make" else 0.85)
                for other in range(num_streams if orders else 0):
                    program.step("wait_stream", a, other, 0)[1]()
                expected, act = program.step(kind, a, b, c)
                race = None
                try:
                    act()
                except sim.RaceError as error:
                    race = str(error)
                assert expected == (race is not None), (seed, kind, a, b, c, race)
                if race:
                    found["dropped" if "dropped" in race else "plain"] += 1
                    break
            else:
                found["none"] += 1
    assert len(found) == 3, found
    assert min(found.values()) >= 20, found


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    num_streams=st.integers(2, 3),
    uses=st.lists(st.tuples(pick, pick, pick), min_size=2, max_size=12),
    data=st.data(),
)
def test_one_missing_link_in_a_chain_is_found(num_streams, uses, data):
    """Each use waits for the one before it; then one of these waits is left out."""
    missing = data.draw(st.integers(1, len(uses) - 1))
    for left_out in (None, missing):
        with warnings.catch_warnings(record=True) as caught, sim.check_races("warn"):
            warnings.simplefilter("always")
            program = Program(num_streams)
            sim.synchronize()
            program.graph.add(["host"], *program.graph.last.values())
            expected = 0
            for number, (s, i, c) in enumerate(uses):
                if number not in (0, left_out):
                    before = uses[number - 1][0] % num_streams
                    program.step("wait_stream", s, before, 0)[1]()
                races, act = program.step("use", s, i, c)
                act()
                expected += races
        assert bool(caught) == bool(expected)
        if left_out is None:
            assert not expected


# ---- around it


def work(device, side):
    """Several kinds of operations; returns the clock, the trace and a result."""
    x = torch.arange(6.0, device=device).requires_grad_()
    main = sim.current_stream(device)
    side.wait_stream(main)
    with side:
        y = (x * 2).sum()
    main.wait_stream(side)
    y.backward()
    out = sim.empty_pinned(6)
    with torch.no_grad():
        out.copy_(x - x.grad, non_blocking=True)
    sim.synchronize()
    return sim.now(), sim.trace(), out.tolist()


def test_checking_changes_no_time_and_no_value():
    plain = work(*configure())
    with sim.check_races():
        checked = work(*configure())
    assert checked == plain
    assert work(*configure()) == plain


def test_outside_nothing_is_kept():
    device, side = configure()
    assert races.active is None
    x = torch.ones(4, device=device)
    assert x._block._sim_history is None
    with side:
        x.mul_(2)
    with sim.check_races():  # what came before counts as done
        x.mul_(2)
    assert races.active is None


def test_an_error_inside_ends_the_check():
    configure()
    with pytest.raises(ZeroDivisionError), sim.check_races():
        raise ZeroDivisionError
    assert races.active is None


def test_warnings_name_each_race_once_and_the_program_goes_on():
    device, side = configure()
    with warnings.catch_warnings(record=True) as caught, sim.check_races(action="warn"):
        warnings.simplefilter("always")
        x = torch.ones(4, device=device)
        with side:
            y = x + x
            z = x.cpu()
    assert [w.category for w in caught] == [RuntimeWarning] * 2
    assert "'add' in stream 1" in str(caught[0].message)
    assert all(w.filename == __file__ for w in caught)
    assert y.tolist() == [2, 2, 2, 2]
    assert z.tolist() == [1, 1, 1, 1]


def test_misuse():
    device, _ = configure()
    with pytest.raises(ValueError, match="'ignore'; give 'raise' or 'warn'"):
        sim.check_races("ignore")
    with sim.check_races():
        torch.ones(2, device=device)
        with pytest.raises(RuntimeError, match="leave out the inner"), sim.check_races():
            pass
    with pytest.raises(RuntimeError, match="no work of a simulated GPU"), sim.check_races():
        torch.ones(2) + 1


def test_threads_that_share_nothing_do_not_race():
    device, side = configure()
    found = []

    def run(stream):
        try:
            with stream:
                x = torch.ones(8, 8, device=device, requires_grad=True)
                for _ in range(20):
                    (x @ x).sum().backward()
        except sim.RaceError as error:
            found.append(error)

    with sim.check_races():
        threads = [
            threading.Thread(target=run, args=(stream,))
            for stream in (side, sim.Stream(device), sim.default_stream(device))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not found


def test_threads_come_and_go():
    """A new thread counts its autograd nodes from the start, like the one before it."""
    device, side = configure()
    found = []

    def run(stream):
        try:
            with stream:
                loss = (parameters(device) * 2).relu().sum()
            loss.backward()
        except sim.RaceError as error:
            found.append(error)

    with sim.check_races():
        for stream in (sim.current_stream(device), side) * 5:
            thread = threading.Thread(target=run, args=(stream,))
            thread.start()
            thread.join()
    assert not found


def test_a_race_between_threads():
    device, side = configure()
    found = []

    def run(x):
        try:
            with side:
                x + 1
        except sim.RaceError as error:
            found.append(str(error))

    with sim.check_races():
        x = torch.ones(4, device=device)
        thread = threading.Thread(target=run, args=(x,))
        thread.start()
        thread.join()
    assert len(found) == 1
    assert "'add' in stream 1" in found[0]


def test_training_on_two_gpus_does_not_race():
    devices = sim.configure(2)
    X, y = torch.rand(10, 1, 28, 28), torch.arange(10)
    with sim.check_races():
        replicas = [get_params(init_params(), device) for device in devices]
        for _ in range(2):
            train_batch(X, y, replicas, devices, lr=0.1)
        assert all(torch.equal(p.cpu(), q.cpu()) for p, q in zip(*replicas, strict=True))


@pytest.mark.parametrize("k", [2, 3])
def test_the_allreduces_do_not_race(k):
    devices = sim.configure(k)
    with sim.check_races():
        data = [torch.full((10,), i + 1.0, device=device) for i, device in enumerate(devices)]
        allreduce_ring(data)
        allreduce_bucketed([[d[:4], d[4:]] for d in data], bucket_bytes=16)
        assert all((d.cpu() == k * k * (k + 1) / 2).all() for d in data)

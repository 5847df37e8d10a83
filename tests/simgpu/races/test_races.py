"""The race detector: the classic mistakes, what orders work, host memory, and how it is used."""

import threading
import warnings

import pytest
import torch
from support.programs.race_programs import configure, parameters, races_in

import simgpu as sim
from simgpu.races import detector as races

shapes_or_values = pytest.mark.parametrize("numerics", [True, False])


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
        assert f"memory may be that of a freed {shape}" in race
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


@pytest.mark.slow
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
        assert "that 'copy cpu -> sim:0' in stream 0 of sim:0" in race
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


def test_a_nested_block_looks_in_place_of_the_outer_one():
    device, side = configure()
    pinned = sim.empty_pinned(1000)
    with sim.check_races("warn"):
        x, z = torch.ones(1000, device=device), torch.ones(1000, device=device)
        with warnings.catch_warnings(record=True) as caught, sim.check_races(nested=True):
            with side:
                x + 1  # made before the nested block
            y = torch.ones(1000, device=device)
            with side, pytest.raises(sim.RaceError, match="'add' in stream 1"):
                y + 1
            pinned.copy_(y, non_blocking=True)
            with pytest.raises(sim.RaceError, match="the host"):
                pinned + 1
        assert caught == []
        with pytest.warns(RuntimeWarning, match="'add' in stream 1"), side:
            z + 1  # the outer block goes on looking
    with sim.check_races(nested=True):
        pass


def races_in_threads(run, streams, at_once=True):
    """Call ``run(stream)`` in a thread for each stream; return what is said about races."""
    found = []

    def run_noting(stream):
        try:
            run(stream)
        except sim.RaceError as error:
            found.append(str(error))

    threads = [threading.Thread(target=run_noting, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
        if not at_once:
            thread.join()
    for thread in threads:
        thread.join()
    return found


def test_threads_that_share_nothing_do_not_race():
    device, side = configure()

    def run(stream):
        with stream:
            x = torch.ones(8, 8, device=device, requires_grad=True)
            for _ in range(20):
                (x @ x).sum().backward()

    with sim.check_races():
        streams = side, sim.Stream(device), sim.default_stream(device)
        assert races_in_threads(run, streams) == []


def test_threads_come_and_go():
    """A new thread counts its autograd nodes from the start, like the one before it."""
    device, side = configure()

    def run(stream):
        with stream:
            loss = (parameters(device) * 2).relu().sum()
        loss.backward()

    with sim.check_races():
        streams = (sim.current_stream(device), side) * 5
        assert races_in_threads(run, streams, at_once=False) == []


def test_a_race_between_threads():
    device, side = configure()

    def run(stream):
        with stream:
            x + 1

    with sim.check_races():
        x = torch.ones(4, device=device)
        (race,) = races_in_threads(run, [side])
    assert "'add' in stream 1" in race

"""The race detector: which memory of dropped tensors may be used again, and when."""

import pytest
import torch
from support.programs.race_programs import configure, races_in

import simgpu as sim


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
    assert "freed" in races_in(
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
    assert "freed" in races_in(program, dropped)
    assert "freed" in races_in(program, dropped // 2 if dropped <= 2**20 else 8 * dropped)


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
    assert "allocated in stream 0 of sim:0. Its memory may be that of a freed" in race
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

    assert "freed" in races_in(program)


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

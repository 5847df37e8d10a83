"""Machines of simulated GPUs: one in use, others for a block, and none that lives on."""

import gc
import threading
import weakref

import pytest
import torch

import simgpu as sim
from simgpu.clock import current


def test_a_block_has_its_own_machine_and_leaves_the_former_as_it_was():
    devices = sim.configure(3, gpu="v100", link="nvlink2")
    torch.manual_seed(1)
    x = torch.randn(100, 100, device=devices[2])
    event, side = sim.Event(), sim.Stream(devices[1])
    event.record(side)
    sim.set_device(1)
    with side:
        before = sim.now(), sim.trace(), sim.memory_allocated(2), sim.current_device()
        with sim.machine(1, gpu="h100", link="pcie5", numerics=False) as (other,):
            assert sim.get_device_spec(other).name == "h100"
            assert (sim.device_count(), sim.current_device(), sim.now()) == (1, 0, 0.0)
            assert not sim.is_numeric()
            torch.ones(1000, 1000, device=other) @ torch.ones(1000, 1000, device=other)
        assert (sim.now(), sim.trace(), sim.memory_allocated(2), sim.current_device()) == before
        assert sim.current_stream(devices[1]) == side
    assert sim.get_link_spec().name == "nvlink2"
    torch.manual_seed(1)
    assert torch.equal(x.cpu(), torch.randn(100, 100, device=devices[2]).cpu())
    event.synchronize()


def test_a_seed_that_is_set_in_a_block_does_not_reach_later_machines():
    draws = []
    for seeds in ((), (5,)):
        torch.manual_seed(1)
        with sim.machine(1):
            for seed in seeds:
                torch.manual_seed(seed)
        (device,) = sim.configure(1)
        draws.append(torch.rand(3, device=device).tolist())
    assert draws[0] == draws[1]


def test_what_is_set_aside_says_so_and_is_back_behind_the_block():
    (device,) = sim.configure(1)
    x, side, event = torch.ones(2, device=device), sim.Stream(device), sim.Event()
    event.record()
    with sim.machine(2) as others:
        y = torch.ones(2, device=others[0])
        for use in (lambda: x + x, x.cpu, lambda: x + y, side.synchronize, event.synchronize):
            with pytest.raises(RuntimeError, match=r"set aside.*after that block"):
                use()
    assert (x + x).tolist() == [2, 2]
    side.synchronize()
    for use in (lambda: y + y, y.cpu, lambda: y + x):
        with pytest.raises(RuntimeError, match="replaced"):
            use()


def test_blocks_nest_and_end_by_errors_too():
    sim.configure(4)

    def program():
        with sim.machine(3):
            with sim.machine(2):
                assert sim.device_count() == 2
            assert sim.device_count() == 3
            sim.configure(1)
            assert sim.device_count() == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        program()
    assert sim.device_count() == 4


def test_a_machine_that_cannot_be_changes_nothing():
    sim.configure(2)
    for wrong in (0, 129, True, "2"):
        with pytest.raises(ValueError, match="from 1 to 128"), sim.machine(wrong):
            pass
    with pytest.raises(ValueError, match="voodoo"), sim.machine(1, gpu="voodoo"):
        pass
    assert sim.device_count() == 2
    assert torch.ones(1, device=sim.configure(1)[0]).item() == 1


@pytest.mark.slow
def test_no_machine_outlives_its_use():
    """Of a machine whose streams had been used, this thread once kept everything, for good."""
    seen = []
    for _ in range(4):
        (device,) = sim.configure(1)
        with sim.Stream(device):
            x = torch.ones(2, device=device)
        thread = threading.Thread(target=sim.set_device, args=(0,))
        thread.start()
        thread.join()
        sim.set_device(0)
        seen.append(weakref.ref(current.current_machine()))
        del x
    with sim.machine(2) as devices, sim.Stream(devices[1]):
        seen.append(weakref.ref(current.current_machine()))
    sim.configure(1)
    gc.collect()
    assert [ref() for ref in seen] == [None] * 5

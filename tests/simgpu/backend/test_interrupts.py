"""Ctrl-C at any moment, and forks, leave the accounting right."""

import gc
import sys
import weakref
from pathlib import Path
from random import Random

import pytest
import torch
from support.programs import stream_programs
from support.samples.trace_rules import check_trace

import simgpu
import simgpu as sim
from simgpu.clock import current

FOLDER = str(Path(simgpu.__file__).parent)


class Interrupt:
    """Raise KeyboardInterrupt at the n-th moment where Python looks for signals.

    That is behind calls and at the start of functions; only those of the simulator count.
    """

    def __init__(self, moment):
        self.left = moment

    def __call__(self, frame, event, argument):
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(FOLDER):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

    def run(self, program):
        """Return whether the program was interrupted."""
        sys.setprofile(self)
        try:
            program()
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(None)
        return False


def program():
    devices = sim.configure(2, gpu="v100", link="nvlink2")
    tensors = stream_programs.run(Random(3), devices, 20)
    x = torch.ones(8, 8, device=devices[0], requires_grad=True)
    (x @ x).sum().backward()
    sim.synchronize()
    return tensors


def count_moments():
    program()  # what is looked up once is looked up now
    counter = Interrupt(0)
    counter.run(program)
    return -counter.left


def check_interrupts(seed, count):
    """Interrupt a program at random moments; afterwards, all is as after one cut short."""
    total = count_moments()
    random = Random(seed)
    gc.freeze()  # what is there already need not be looked through every time
    for moment in sorted(random.sample(range(1, total), count)):
        interrupted = Interrupt(moment).run(program)
        gc.collect()
        machine = current.current_machine()
        devices = [device.torch_device for device in machine.devices]
        for device in machine.devices:  # nothing is alive, and no interval got lost by halves
            assert sim.memory_allocated(device.torch_device) == 0, moment
            for engine in (device.compute, device.h2d, device.d2h, device.peer_in, device.peer_out):
                assert len(engine._starts) == len(engine._ends), moment
        before = sim.now()
        stream_programs.run(Random(4), devices, 10)  # goes on where that one stopped
        sim.synchronize()
        assert sim.now() >= before
        check_trace(sim.trace(), machine.gpu, machine.link, sim.now())
        gc.collect()
        assert not any(sim.memory_allocated(device) for device in devices), moment
        for device in machine.devices:
            device.memory.empty_cache()
            assert device.memory.segments.reserved == 0, moment
        assert interrupted, moment
    gc.unfreeze()


@pytest.mark.slow
def test_an_interrupt_leaves_the_accounting_right():
    check_interrupts(0, 40)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(1, 11))
def test_many_interrupts_leave_the_accounting_right(seed):
    check_interrupts(seed, 300)


def test_an_interrupt_does_not_lose_what_a_copy_brings():
    for moment in range(1, 12):
        (device,) = sim.configure(1)
        host = torch.ones(4, device=device).to("cpu", non_blocking=True)
        Interrupt(moment).run(sim.synchronize)
        sim.synchronize()
        assert host.tolist() == [1.0] * 4


@pytest.mark.slow
def test_a_machine_goes_although_its_streams_were_used():
    (device,) = sim.configure(1)
    with sim.Stream(device):
        torch.ones(2, device=device)
    machine = weakref.ref(current.current_machine())
    sim.configure(1)
    gc.collect()
    assert machine() is None

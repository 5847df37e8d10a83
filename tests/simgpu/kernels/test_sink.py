"""A sink in front of a device sees its kernels, and decides when they start."""

import pytest
import torch

import simgpu as sim
from simgpu.clock.current import find_device


class Tape:
    """Keeps kernels until they are played."""

    def __init__(self, device):
        self.device, self.kernels = device, []
        device.sink = self

    def launch(self, *kernel, **facts):
        self.kernels.append((kernel, facts))

    def play(self):
        self.device.sink = self.device
        for kernel, facts in self.kernels:
            self.device.launch(*kernel, **facts)


def program(device):
    x = torch.ones(64, 64, device=device)
    y = (x @ x + 1).relu_().sum()
    y += x.clone()[0, 0]
    return y


@pytest.mark.parametrize("numerics", [True, False])
def test_kernels_that_a_sink_keeps_start_when_it_passes_them_on(numerics):
    (device,) = sim.configure(1, numerics=numerics)
    program(device)
    sim.synchronize()
    direct = sim.trace()
    (device,) = sim.configure(1, numerics=numerics)
    tape = Tape(find_device(device))
    value = program(device)
    assert sim.now() == 0
    assert not sim.trace()
    tape.play()
    sim.synchronize()
    assert sim.trace() == direct
    if numerics:
        assert value.item() == 64 * 64 * 65 + 1


def test_a_sink_sees_which_tensors_an_operation_reads_and_makes():
    (device,) = sim.configure(1)
    x = torch.ones(4, 4, device=device)
    tape = Tape(find_device(device))
    y = x @ x
    (((name, flops, *_, call, results), _),) = tape.kernels
    assert (name, flops) == ("mm", 2 * 4**3)
    assert call.op.kernel.kind == "product"
    assert call.args == (x, x)
    assert results is y

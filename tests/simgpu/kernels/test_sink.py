"""A sink in front of a device sees its kernels, and decides when they start."""

import pytest
import torch
from support.programs.clock_programs import spans

import simgpu as sim
from simgpu.clock.current import find_device


class Tape:
    """Keeps kernels until they are played."""

    has_constants = False

    def __init__(self, device):
        self.device, self.kernels = device, []
        device.sink = self

    def launch(self, *kernel, **facts):
        self.kernels.append((kernel, facts))

    def settle(self, read=None):
        pass

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


class Counter:
    """Counts the kernels that it passes on."""

    has_constants = False

    def __init__(self, device):
        self.next, self.names = device.sink, []
        device.sink = self

    def launch(self, name, *kernel, **facts):
        self.names.append(name)
        self.next.launch(name, *kernel, **facts)

    def settle(self, read=None):
        self.next.settle(read)


def test_a_sink_of_a_rank_stays_behind_a_collective():
    """A rank that waits for others before a kernel restores the sink that was there."""

    def program(rank):
        device = torch.accelerator.current_accelerator()
        torch.distributed.init_process_group()
        x = torch.ones(4, device=device)
        counter = Counter(find_device(x.device))
        for _ in range(2):
            torch.distributed.all_reduce(x)
            x = x + 1
            x = x * 2
        return counter.names

    assert sim.spawn(program, nprocs=2) == [["add", "mul"] * 2] * 2


def test_a_kernel_on_another_ranks_gpu_runs_there():
    """Also while the next kernel of that GPU's rank has to wait for a collective."""

    def program(rank):
        torch.distributed.init_process_group()
        torch.distributed.all_reduce(torch.ones(4, device=f"sim:{rank}"))
        if rank == 1:
            torch.ones(4, device="sim:0").neg_()
        torch.distributed.barrier()
        if rank == 0:
            torch.ones(4, device="sim:0").abs_()

    sim.spawn(program, nprocs=2)
    others, own = (
        {s.device for s in spans(name=name, engine="compute")} for name in ("neg", "abs")
    )
    assert len(own) == 1
    assert others == own

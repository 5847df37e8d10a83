"""Bytes on simulated devices: who holds them, the peak, and what happens at the end of them."""

import dataclasses

import pytest
import torch
from torch import nn

import simgpu as sim

KIB = 1024


def held(run, device):
    """Bytes that the result of `run` holds; the result goes when this returns."""
    before = sim.memory_allocated(device)
    result = run()
    assert result is not None
    return sim.memory_allocated(device) - before


@pytest.mark.parametrize("numerics", [True, False])
def test_blocks_of_512_bytes_freed_with_the_last_reference(numerics):
    d0, d1 = sim.configure(2, numerics=numerics)
    assert sim.memory_allocated(d0) == 0
    x = torch.empty(1, device=d0)
    assert sim.memory_allocated(d0) == 512
    y = torch.empty(129, device=d0)
    assert sim.memory_allocated(d0) == 512 + 1024
    del x
    assert sim.memory_allocated(d0) == 1024
    del y
    assert sim.memory_allocated(d0) == 0
    assert sim.memory_allocated(d1) == 0


def test_views_share_and_keep_their_storage():
    (device,) = sim.configure(1)
    x = torch.zeros(1024, device=device)
    views = [x[:10], x.view(32, 32), x.detach(), x.view(32, 32).t()[3], *x.chunk(4)]
    assert sim.memory_allocated(device) == 4 * KIB
    del x
    assert sim.memory_allocated(device) == 4 * KIB
    del views
    assert sim.memory_allocated(device) == 0


@pytest.mark.parametrize(
    ("run", "num_bytes"),
    [
        (lambda x: x.view(-1), 0),
        (lambda x: x.expand(4, 32, 32), 0),
        (lambda x: x.add_(1), 0),
        (lambda x: x.to(x.device), 0),
        (lambda x: x.contiguous(), 0),
        (lambda x: x + 1, 4 * KIB),
        (lambda x: x.clone(), 4 * KIB),
        (lambda x: x @ x, 4 * KIB),
        (lambda x: torch.stack([x, x]), 8 * KIB),
        (lambda x: x.double(), 8 * KIB),
        (lambda x: x.max(0), 512 + 512),
        (lambda x: x.expand(4, 32, 32).contiguous(), 16 * KIB),
        (lambda x: x.view(2, 16, 32) @ x, 4 * KIB),
        (lambda x: torch.empty(0, device=x.device).resize_(256), 1 * KIB),
        (lambda x: torch.add(x, x, out=torch.empty(0, device=x.device)), 4 * KIB),
        (lambda x: x.cpu(), 0),
    ],
)
def test_what_an_operation_holds(run, num_bytes):
    (device,) = sim.configure(1)
    x = torch.zeros(32, 32, device=device)
    assert held(lambda: run(x), device) == num_bytes
    assert sim.memory_allocated(device) == 4 * KIB


def test_addresses_tell_aliases_apart():
    for numerics in (True, False):
        (device,) = sim.configure(1, numerics=numerics)
        x = torch.zeros(32, 32, device=device)
        y = torch.zeros(32, 32, device=device)
        assert x.data_ptr() != y.data_ptr()
        assert x[0].data_ptr() == x.data_ptr()
        assert x[1].data_ptr() == x.data_ptr() + 32 * 4
        assert x[1].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        assert y.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
        assert x.to(device).data_ptr() == x.data_ptr()
        assert x.clone().data_ptr() != x.data_ptr()
        assert x[1].untyped_storage().nbytes() == 4 * KIB


def test_peak_is_kept_until_reset():
    (device,) = sim.configure(1)
    x = torch.zeros(256, device=device)
    y = x + (x * 2)  # the product goes, the sum stays
    assert sim.memory_allocated(device) == 2 * KIB
    assert sim.max_memory_allocated(device) == 3 * KIB
    sim.reset_peak_memory_stats(device)
    assert sim.max_memory_allocated(device) == 2 * KIB
    del x, y
    assert sim.max_memory_allocated(device) == 2 * KIB


def test_training_returns_to_where_it_was():
    (device,) = sim.configure(1)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).to(device)
    weights = sum(-(-p.nbytes // 512) * 512 for p in net.parameters())
    assert sim.memory_allocated(device) == weights
    optimiser = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(3):
        net(torch.ones(16, 64, device=device)).sum().backward()
        optimiser.step()
        assert sim.memory_allocated(device) == 2 * weights  # weights and gradients
        optimiser.zero_grad()
        assert sim.memory_allocated(device) == weights
    assert sim.max_memory_allocated(device) > 2 * weights


def test_activations_are_held_for_the_backward_pass():
    (device,) = sim.configure(1)
    x = torch.ones(256, device=device, requires_grad=True)
    y = x.exp().exp().exp()
    assert sim.memory_allocated(device) == 4 * KIB  # each result is needed backwards
    y.sum().backward()
    del y
    assert sim.memory_allocated(device) == 2 * KIB  # x and its gradient


def test_a_moved_module_leaves_its_device():
    d0, d1 = sim.configure(2)
    net = nn.Linear(128, 128).to(d0)
    size = sim.memory_allocated(d0)
    net.to(d1)
    assert (sim.memory_allocated(d0), sim.memory_allocated(d1)) == (0, size)
    net.cpu()
    assert sim.memory_allocated(d1) == 0


SMALL = dataclasses.replace(sim.GPUS["v100"], memory=64 * KIB)


@pytest.mark.parametrize("numerics", [True, False])
def test_out_of_memory_leaves_everything_as_it_was(numerics):
    (device,) = sim.configure(1, gpu=SMALL, numerics=numerics)
    x = torch.zeros(8 * KIB, device=device)  # half of it
    state = sim.memory_allocated(device), sim.max_memory_allocated(device)
    requests = (
        lambda: torch.empty(8 * KIB + 1, device=device),
        lambda: torch.zeros(10 * KIB, device=device),
        lambda: x.double(),
        lambda: torch.stack([x, x]),
        lambda: torch.ones(20 * KIB).to(device),
        lambda: torch.outer(x, x[:16]),
        lambda: x.max(0) and torch.sort(x),
    )
    for request in requests:
        moment, launched = sim.now(), len(sim.trace())
        with pytest.raises(torch.OutOfMemoryError):
            request()
        assert (sim.memory_allocated(device), state[1]) == state
        if request is requests[0]:
            assert (sim.now(), len(sim.trace())) == (moment, launched)
    y = torch.zeros(8 * KIB, device=device)  # the other half fits
    assert sim.memory_allocated(device) == 64 * KIB
    x = y = None
    assert (x, y, sim.memory_allocated(device)) == (None, None, 0)


def test_out_of_memory_reads_like_cuda():
    (device,) = sim.configure(1, gpu="v100")
    x = torch.empty(3 * 2**28, device=device)
    with pytest.raises(torch.cuda.OutOfMemoryError) as error:
        torch.empty(4 * 2**30, device=device)
    text = str(error.value)
    assert "CUDA out of memory. Tried to allocate 16.00 GiB." in text
    assert "GPU 0" in text
    assert "total capacity of 16.00 GiB of which 13.00 GiB is free" in text
    assert "3.00 GiB is allocated by PyTorch" in text
    assert x.nbytes == 3 * 2**30


def test_out_of_memory_during_backward_can_be_survived():
    # x, x * 2, their product and the sum; the backward pass needs more than is left.
    gpu = dataclasses.replace(SMALL, memory=15 * KIB)
    (device,) = sim.configure(1, gpu=gpu)
    x = torch.ones(KIB, device=device, requires_grad=True)
    loss = (x * (x * 2)).sum()
    with pytest.raises(torch.OutOfMemoryError):
        loss.backward()
    del loss
    assert sim.memory_allocated(device) == 4 * KIB
    (x[:16] * 2).sum().backward()
    assert x.grad[:16].tolist() == [2.0] * 16


def test_one_device_may_be_full_and_another_empty():
    d0, d1 = sim.configure(2, gpu=SMALL)
    x = torch.zeros(16 * KIB, device=d0)
    y = x.to(d1)
    with pytest.raises(torch.OutOfMemoryError, match="GPU 1"):
        x.to(d1)
    assert sim.memory_allocated(d1) == y.nbytes == 64 * KIB


def test_the_capacity_is_the_specs():
    for name, spec in sim.GPUS.items():
        (device,) = sim.configure(1, gpu=name, numerics=False)
        whole = torch.empty(spec.memory, dtype=torch.uint8, device=device)
        assert sim.memory_allocated(device) == spec.memory
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1, device=device)
        del whole


TOO_MUCH = 10**13  # elements: more than any host has room for
REQUESTS = {
    "ones": lambda x: torch.ones(TOO_MUCH, device=x.device),
    "full": lambda x: torch.full((TOO_MUCH,), 2.0, device=x.device),
    "rand": lambda x: torch.rand(TOO_MUCH, device=x.device),
    "randperm": lambda x: torch.randperm(TOO_MUCH, device=x.device),
    "eye": lambda x: torch.eye(10**7, device=x.device),
    "add": lambda x: x.expand(TOO_MUCH) + 1,
    "clone": lambda x: x.expand(TOO_MUCH).clone(),
    "repeat": lambda x: x.repeat(TOO_MUCH),
    "outer": lambda x: torch.outer(x.expand(10**7), x.expand(10**7)),
    "pad": lambda x: nn.functional.pad(x, (0, TOO_MUCH)),
    "rand_like": lambda x: torch.rand_like(x.expand(TOO_MUCH)),
    "new_zeros": lambda x: x.new_zeros(TOO_MUCH),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_memory_runs_out_before_the_host_computes(name):
    (device,) = sim.configure(1)
    x = torch.ones(1, device=device)
    with pytest.raises(torch.OutOfMemoryError, match="Simulated CUDA out of memory"):
        REQUESTS[name](x)
    assert sim.memory_allocated(device) == 512


def test_two_results_that_fit_one_by_one_alone_are_refused_before_the_host_computes():
    (device,) = sim.configure(1, gpu=dataclasses.replace(SMALL, memory=10**14))
    x = torch.ones(1, device=device).expand(TOO_MUCH)  # values take 4, indices 8 bytes each
    with pytest.raises(torch.OutOfMemoryError, match="Simulated CUDA out of memory"):
        x.sort()
    assert sim.memory_allocated(device) == 512


@pytest.mark.parametrize("name", ["ones", "add", "repeat"])
def test_a_host_without_memory_says_what_helps(name):
    (device,) = sim.configure(1, gpu=dataclasses.replace(SMALL, memory=10**15))
    x = torch.ones(1, device=device)
    with pytest.raises(MemoryError, match=rf"compute {name} for sim:0 .*numerics=False"):
        REQUESTS[name](x)
    assert sim.memory_allocated(device) == 512

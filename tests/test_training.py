"""Data parallelism from scratch: equal to one device, for every number of devices."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from d2lmini import gpus, sim
from d2lmini.checks.scratch.update import reference_update
from d2lmini.evaluation import accuracy, evaluate_accuracy
from d2lmini.training import (
    allreduce,
    get_params,
    init_params,
    lenet,
    sgd,
    split_batch,
    train_batch,
)


def batches(count, size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        (
            torch.rand(size, 1, 28, 28, generator=generator),
            torch.randint(10, (size,), generator=generator),
        )
        for _ in range(count)
    ]


def module_with(params):
    """LeNet of torch.nn layers in float64: written independently of `lenet`."""
    net = nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10),
    ).double()  # fmt: skip
    with torch.no_grad():
        for ours, theirs in zip(params, net.parameters(), strict=True):
            theirs.copy_(ours.T if ours.dim() == 2 else ours)
    return net


def flat(params):
    return torch.cat([p.detach().flatten() for p in params])


def all_devices(kind, k):
    return gpus(k, gpu="v100") if kind == "sim" else [torch.device("cpu")] * k


def test_lenet_is_the_network_of_torch_nn():
    X, _ = batches(1, 4)[0]
    params = init_params(3)
    ours, theirs = lenet(X, params), module_with(params)(X.double())
    assert torch.allclose(ours.double(), theirs, atol=1e-5)


def test_init_params_depend_on_the_seed_alone():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    assert all(map(torch.equal, init_params(1), init_params(1)))
    assert not torch.equal(init_params(1)[0], init_params(2)[0])
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("kind", ["cpu", "sim"])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_twenty_updates_have_the_losses_of_torch_nn(kind, k):
    # In float64: rounding grows from update to update, in float32 to more than 1e-4 on some CPUs.
    devices = all_devices(kind, k)
    params = [p.double() for p in init_params()]
    net = module_with(params)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    replicas = [get_params(params, device) for device in devices]
    for X, y in batches(20, 10):
        X = X.double()
        loss = F.cross_entropy(net(X), y)
        for device, params in zip(devices, replicas, strict=True):
            with torch.no_grad():
                ours = F.cross_entropy(lenet(X.to(device), params), y.to(device))
            assert ours.item() == pytest.approx(loss.item(), rel=1e-9)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        train_batch(X, y, replicas, devices, lr=0.05)


@pytest.mark.parametrize("kind", ["cpu", "sim"])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_update_in_float32_is_that_of_float64_but_for_rounding(kind, k):
    devices, (X, y), start = all_devices(kind, k), batches(1, 10)[0], init_params()
    replicas = [get_params(start, device) for device in devices]
    train_batch(X, y, replicas, devices, lr=0.2)
    params, _ = reference_update(X, y, start, lr=0.2)
    wanted, before = flat(params), flat(start).double()
    for params in replicas:
        error = flat([p.cpu() for p in params]).double() - wanted
        assert error.norm() < 1e-4 * (wanted - before).norm()


@pytest.mark.parametrize("size", [5, 3, 1])
def test_update_with_a_batch_that_devices_do_not_divide(size):
    devices = all_devices("cpu", 4)
    (X, y), start = batches(1, size)[0], init_params()
    replicas = [get_params(start, device) for device in devices]
    alone = [get_params(start, "cpu")]
    train_batch(X, y, replicas, devices, lr=0.2)
    train_batch(X, y, alone, ["cpu"], lr=0.2)
    for params in replicas:
        for p, q in zip(params, alone[0], strict=True):
            assert torch.allclose(p, q, atol=1e-6)


def test_split_batch_refuses_other_numbers_of_labels():
    with pytest.raises(ValueError, match="5 examples, 4 labels"):
        split_batch(torch.zeros(5, 1), torch.zeros(4), ["cpu"])


def test_replicas_on_one_device_do_not_share_memory():
    params = [torch.ones(3)]
    shared = [
        p.to("cpu").requires_grad_() for p in params
    ]  # on the same device, `to` copies nothing
    copied = get_params(params, "cpu")
    assert shared[0].data_ptr() == params[0].data_ptr()
    assert copied[0].data_ptr() != params[0].data_ptr()
    assert copied[0].is_leaf
    assert copied[0].requires_grad


@pytest.mark.parametrize("kind", ["cpu", "sim"])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_allreduce_leaves_the_sum_on_every_device(kind, k):
    devices = all_devices(kind, k)
    data = [torch.arange(6.0).reshape(2, 3).to(d, copy=True) * i for i, d in enumerate(devices)]
    wanted = torch.stack([d.cpu() for d in data]).sum(0)
    entries = list(data)
    allreduce(data)
    assert all(entry is d for entry, d in zip(entries, data, strict=True))
    assert all(torch.equal(d.cpu(), wanted) for d in data)


def test_allreduce_refuses_tensors_that_share_memory():
    x = torch.ones(4)
    with pytest.raises(ValueError, match="share memory"):
        allreduce([x, x])
    with pytest.raises(ValueError, match="share memory"):
        allreduce([x, torch.ones(4), x.view(4)])


def test_allreduce_refuses_other_shapes_and_takes_empty_tensors():
    with pytest.raises(ValueError, match="differ in shape"):
        allreduce([torch.ones(3, 2), torch.ones(2)])
    allreduce([torch.ones(0), torch.ones(0)])


def test_sgd_takes_the_mean_and_clears_the_gradient():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    (w * torch.tensor([4.0, 8.0])).sum().backward()
    sgd([w], lr=0.5, batch_size=4)
    assert w.tolist() == [0.5, 1.0]
    assert w.grad.tolist() == [0.0, 0.0]


def test_accuracy_counts_and_evaluation_weighs_batches_by_size():
    scores = torch.eye(4)
    assert accuracy(scores, torch.tensor([0, 1, 0, 0])).item() == 2
    data = [(scores, torch.tensor([0, 1, 2, 0])), (scores[:1], torch.tensor([1]))]
    assert evaluate_accuracy(lambda X: X, data, "cpu") == 3 / 5  # not (3/4 + 0) / 2


def test_evaluation_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="no example"):
        evaluate_accuracy(lambda X: X, [], "cpu")


def test_training_on_two_gpus_does_not_race():
    devices = sim.configure(2)
    X, y = torch.rand(10, 1, 28, 28), torch.arange(10)
    with sim.check_races():
        replicas = [get_params(init_params(), device) for device in devices]
        for _ in range(2):
            train_batch(X, y, replicas, devices, lr=0.1)
        assert all(torch.equal(p.cpu(), q.cpu()) for p, q in zip(*replicas, strict=True))

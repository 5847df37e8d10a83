"""What MXNet 1.9.1 computed, and what PyTorch computes for the same inputs."""

import math

import pytest
import torch
from support.mxnet_values import RECORD, VALUES
from support.mxnet_values.today import COMPARED, devices, on_gpu, pattern, trained
from torch import nn

from d2lmini import Residual, gpus, resnet18

CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # MXNet's logarithms are wrong in the sixth digit
DRAWN = {name for name, value in VALUES.items() if "std" in str(value)}


@pytest.fixture(autouse=True)
def two_gpus():
    gpus(2, quiet=True)


def agree(found, recorded):
    if isinstance(found, torch.Tensor):
        torch.testing.assert_close(found.detach().cpu(), torch.tensor(recorded), **CLOSE)
    elif isinstance(found, list) and found and isinstance(found[0], torch.Tensor):
        for one, other in zip(found, recorded, strict=True):
            torch.testing.assert_close(one.to(torch.float32), torch.tensor(other), **CLOSE)
    else:
        assert found == recorded


def like(found, recorded):
    """Whether both were drawn from one distribution: 180 000 numbers, or biases that are zero."""
    spread = recorded["std"]
    assert abs(found["mean"] - recorded["mean"]) <= 0.015 * spread
    assert math.isclose(found["std"], spread, rel_tol=0.01)
    # The largest of many normal numbers varies; that of uniform ones is their bound.
    uniform = recorded["max"] - recorded["mean"] < 2 * spread
    assert math.isclose(found["max"], recorded["max"], rel_tol=1e-3 if uniform else 0.35)


@pytest.mark.parametrize("name", sorted(set(COMPARED) - DRAWN))
def test_today_computes_what_mxnet_computed(name):
    agree(COMPARED[name](), VALUES[name])


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_today_draws_what_mxnet_drew(name):
    torch.manual_seed(0)
    found, recorded = COMPARED[name](), VALUES[name]
    for part in found if "weight" in found else [None]:
        like(found[part] if part else found, recorded[part] if part else recorded)


def test_another_computation_would_be_found():
    with pytest.raises(AssertionError):
        agree(trained([0.11])[0], VALUES["weights, trainer.step(8)"])
    with pytest.raises(AssertionError):
        like({"mean": 0.0, "std": 0.02, "max": 0.09}, VALUES["init.Normal()"]["weight"])


def test_the_record_is_of_the_versions_that_the_page_names():
    assert RECORD["versions"]["mxnet"] == "1.9.1"
    assert RECORD["versions"]["d2l"] == "0.17.0"


# What is different, as the page says.


@pytest.mark.parametrize("part", ["weights", "biases"])
def test_momentum_is_different_after_a_change_of_the_rate(part):
    found = trained([0.1, 0.01, 0.01], momentum=0.9)[part == "biases"]
    recorded = torch.tensor(VALUES[f"{part}, momentum, rate changed"])
    assert (found.cpu() - recorded).abs().max() > 0.005


def test_mxnet_keeps_the_old_rate_in_its_velocity():
    weight, velocity, bias = pattern(3, 4), torch.zeros(3, 4), pattern(3)
    slow, X, y = torch.zeros(3), pattern(8, 4), torch.arange(8) * 2 % 3
    for lr in (0.1, 0.01, 0.01):
        weight.requires_grad_(), bias.requires_grad_()
        loss = nn.functional.cross_entropy(X @ weight.T + bias, y)
        grads = torch.autograd.grad(loss, (weight, bias))
        velocity, slow = 0.9 * velocity - lr * grads[0], 0.9 * slow - lr * grads[1]
        weight, bias = (weight + velocity).detach(), (bias + slow).detach()
    agree(weight, VALUES["weights, momentum, rate changed"])
    agree(bias, VALUES["biases, momentum, rate changed"])


def test_running_variances_divide_by_another_number_and_earlier():
    layer = nn.BatchNorm1d(2).to(devices()[0])
    layer(on_gpu(4, 2))
    assert VALUES["BatchNorm's means before backward"] == [0, 0] != layer.running_mean.tolist()
    recorded = torch.tensor(VALUES["BatchNorm's variances"])
    torch.testing.assert_close((layer.running_var.cpu() - 0.9) * 3 / 4 + 0.9, recorded)
    assert (layer.running_var.cpu() - recorded).abs().min() > 1e-3


def test_gradients_begin_as_zeros_in_mxnet():
    assert VALUES["gradient before backward, write"] == [0, 0, 0]
    assert on_gpu(3).requires_grad_().grad is None


def test_recording_decides_whether_mxnet_trains():
    assert VALUES["training while recording, and otherwise"] == [True, False]
    assert nn.Linear(1, 1).training


def test_mxnet_refuses_unequal_shards_and_weights_without_shape():
    assert VALUES["split_and_load of 7"].startswith("ValueError")
    assert VALUES["Dense's weight before the first batch"].startswith("DeferredInit")
    with pytest.raises(ValueError, match="uninitialized"):
        nn.LazyLinear(3).weight.sum()


def test_dense_flattens_and_linear_does_not():
    assert VALUES["Dense on three axes"] == [2, 5]
    assert nn.Linear(4, 5)(torch.ones(2, 3, 4)).shape == (2, 3, 5)


def test_whole_numbers_are_floats_in_mxnet():
    assert VALUES["dtype of np.array([1, 2])"] == "float32"
    assert torch.tensor([1, 2]).dtype == torch.int64


def test_a_parameter_is_written_without_recording():
    with pytest.raises(RuntimeError, match="leaf"):
        nn.Linear(4, 3).weight.copy_(pattern(3, 4))


def test_networks_differ_in_biases_and_normalised_shortcuts():
    convs = [m for m in resnet18().modules() if isinstance(m, nn.Conv2d)]
    biases = sum(conv.out_channels for conv in convs)
    shortcuts = sum(2 * c.out_channels for c in convs if c.kernel_size == (1, 1))
    count = sum(p.numel() for p in resnet18().parameters())
    assert VALUES["d2l.resnet18"] == count + biases - shortcuts
    assert list(Residual(4, 8, 2)(torch.ones(1, 4, 6, 6)).shape) == VALUES["d2l.Residual"]

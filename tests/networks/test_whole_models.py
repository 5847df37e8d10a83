"""Models of torchvision on simulated GPUs: the same costs with and without values."""

import pytest
import torch

import simgpu as sim
from benchmarks.import_torchvision import torchvision


def small_swin():
    return torchvision.models.SwinTransformer(
        patch_size=[4, 4], embed_dim=24, depths=[1, 1], num_heads=[2, 2], window_size=[4, 4],
        stochastic_depth_prob=0.0,
    )  # fmt: skip


@pytest.mark.parametrize("make", [torchvision.models.resnet18, small_swin])
@pytest.mark.parametrize("train", [True, False])
def test_whole_models_cost_the_same_with_and_without_values(make, train):
    found = []
    for numerics in (True, False):
        (device,) = sim.configure(1, gpu="a100", numerics=numerics)
        model = make().train(train).to(device)
        model(torch.ones(2, 3, 64, 64, device=device)).sum().backward()
        sim.synchronize()
        found.append((sim.trace(), sim.max_memory_allocated(device), sim.now()))
    assert found[0] == found[1]
    assert len(found[0][0]) > 100

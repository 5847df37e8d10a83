"""What the chapter on meshes takes from `d2lmini.pages`."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

from d2lmini.pages.putting_it_together import (
    One,
    Sizes,
    arrange,
    bytes_sent,
    make_texts,
    on_ranks,
    one_layer,
    train_alone,
)

AXES = "far", "middle", "near"
pytestmark = pytest.mark.process


def test_the_last_axis_of_an_order_has_neighbours():
    assert torch.equal(arrange((2, 3, 2), AXES, AXES), torch.arange(12).reshape(2, 3, 2))
    turned = arrange((2, 3, 2), AXES, ("near", "middle", "far"))
    assert turned.shape == (2, 3, 2)
    assert turned[:, 0, 0].tolist() == [0, 1]
    assert turned[0, :, 0].tolist() == [0, 2, 4]
    assert turned[0, 0].tolist() == [0, 6]


def test_later_texts_are_longer_and_padding_does_not_count():
    sizes = Sizes(words=64, width=8, heads=1, layers=1, length=32)
    x, y = make_texts(sizes)
    counted = (y != -100).sum(1)
    assert torch.equal(counted, 2 * torch.arange(1, 17))
    assert x.max() < sizes.words
    assert torch.equal(x[:, 1:][y[:, :-1] != -100], y[:, :-1][y[:, :-1] != -100])


def test_training_alone_is_a_loop_of_sgd_with_clipped_gradients():
    torch.manual_seed(0)
    x, y = make_texts(Sizes(8, 4, 1, 1, 6), batch=4)
    model = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 8))
    weights = [p.detach().clone() for p in model.parameters()]
    (first, norm), (second, _) = train_alone(model, x, y, lr=0.5, max_norm=1e-3)
    assert second < first
    assert norm > 1e-3
    moved = [(p - w).square().sum() for p, w in zip(model.parameters(), weights, strict=True)]
    assert sum(moved).sqrt().item() == pytest.approx(2 * 0.5 * 1e-3, rel=0.01)


def test_bytes_are_those_of_the_last_seconds_by_group():
    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        mesh = dist.init_device_mesh(device.type, (2, 2), mesh_dim_names=("far", "near"))
        x, whole = torch.ones(1000, device=device), torch.ones(2000, device=device)
        for _ in range(2):
            dist.all_gather_into_tensor(whole, x, group=mesh["near"].get_group())
        torch.accelerator.synchronize()

    on_ranks(program, nprocs=4)
    assert bytes_sent(1.0) == {"near": 2 * 4000}
    assert bytes_sent(0.0) == {}


def test_a_layer_runs_below_the_peak_and_wide_ones_faster():
    narrow, wide = (
        on_ranks(one_layer, width, 8, nprocs=1, numerics=False)[0] for width in (256, 4096)
    )
    assert narrow < wide < 312e12


def test_one_stands_for_a_group():
    assert (One().rank(), One().size()) == (0, 1)

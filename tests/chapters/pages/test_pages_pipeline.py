"""What the chapter on pipelines takes from d2lmini.pages: passes, idle shares, gradients."""

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn

import simgpu as sim
from d2lmini.language_model import Block
from d2lmini.pages.pipeline_parallel import (
    LANGUAGE_LAYERS,
    difference,
    gradients,
    language_costs,
    language_layer,
    language_stage,
    measure,
    mistakes,
    watched,
)

pytestmark = pytest.mark.process

GPIPE = [("forward", 0), ("forward", 1), ("backward", 0), ("backward", 1)]


def stage_of(order, wait_for=None):
    """Return a program whose ranks compute a square for each pass, from a message on."""

    def prepare():
        rank, device = dist.get_rank(), torch.accelerator.current_accelerator()
        x = torch.ones(4096, 4096, device=device)

        def step():
            if rank == 1 and wait_for:
                dist.recv(x, 0)
            for _ in watched(order):
                x @ x
            if rank == 0 and wait_for:
                dist.send(x, 1)

        return [SimpleNamespace(part=nn.Identity(), rank=rank)], step

    return prepare


@pytest.mark.parametrize(("order", "live"), [(GPIPE, 2), (GPIPE[::2] + GPIPE[1::2], 1)])
def test_live_micro_batches_are_between_two_passes(order, live):
    step = measure(stage_of(order), p=1)
    assert step.live == [live]
    assert [(p.kind, p.micro) for p in step.passes] == order
    assert step.bubble < 0.05


def test_a_gpu_that_waits_is_idle_in_the_step_and_not_in_its_own_time():
    step = measure(stage_of(GPIPE, wait_for=True), p=2)
    assert step.idle == pytest.approx([0.5, 0.5], abs=0.02)
    assert step.own_idle < 0.05
    one = measure(stage_of(GPIPE), p=1)
    assert step.ms == pytest.approx(2 * one.ms, rel=0.05)


def test_gradients_are_in_the_order_of_the_stages():
    def prepare():
        numbers = dist.get_rank(), 3 - dist.get_rank()
        layers = [nn.Linear(1, 1, bias=False) for _ in numbers]

        def step():
            for number, layer in zip(numbers, layers, strict=True):
                layer.weight.grad = torch.full((1, 1), float(number))

        stages = zip(layers, numbers, strict=True)
        return [SimpleNamespace(part=layer, rank=number) for layer, number in stages], step

    found = gradients(prepare, p=2)
    assert [gradient.item() for gradient in found] == [0, 1, 2, 3]


def test_a_difference_is_relative_to_the_largest_number():
    right = [torch.tensor([1.0, -10.0]), torch.tensor([2.0])]
    assert difference(right, [right[0], torch.tensor([3.0])]) == 0.1


def test_a_language_model_is_the_same_however_it_is_cut():
    def stages(rank, cuts):
        dist.init_process_group()
        part = language_stage(cuts)[0].submod
        return [(type(layer), [p.detach().cpu() for p in layer.parameters()]) for layer in part]

    whole = sim.spawn(stages, ([],))[0]
    cut = [layer for part in sim.spawn(stages, ([3, 9],), nprocs=3) for layer in part]
    assert len(whole) == len(cut) == LANGUAGE_LAYERS
    assert [kind for kind, _ in whole].count(Block) == LANGUAGE_LAYERS - 2
    for (_, one), (_, other) in zip(whole, cut, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(one, other, strict=True))
    assert torch.equal(whole[0][1][0], whole[-1][1][0])  # the tied matrix
    assert not torch.equal(whole[1][1][2], whole[2][1][2])


def test_the_head_has_a_row_of_logits_for_each_token():
    def shapes(rank):
        x = torch.zeros(2, 3, 8, device=torch.accelerator.current_accelerator())
        return [language_layer(i, 5, 8)(x).shape for i in (1, LANGUAGE_LAYERS - 1)]

    assert sim.spawn(shapes)[0] == [(2, 3, 8), (6, 5)]


def test_a_head_costs_more_than_a_block_and_an_embedding_next_to_nothing():
    embedding, block, *_, head = language_costs(m=8)
    assert 20 * embedding < block < head / 2


def test_each_mistake_changes_one_thing_of_what_is_right():
    how = mistakes(sum, max)
    right = how.pop("all right")
    assert right == {"finish": [sum, max]}
    assert len(how) == 5
    for wrong in how.values():
        finish, others = wrong["finish"], {name for name in wrong if name != "finish"}
        assert (finish == right["finish"]) == bool(others)
        assert len(others) <= 1
        assert len(set(map(str, finish)) & {str(sum), str(max)}) >= 1

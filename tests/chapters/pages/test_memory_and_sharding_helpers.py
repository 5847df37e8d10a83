"""What the chapter on memory and sharding takes from `d2lmini.pages`."""

from functools import partial
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

from d2lmini import LanguageModel
from d2lmini.pages.memory_and_sharding import (
    adam_seconds,
    batches,
    busy_share,
    count_parameters,
    ddp_weights,
    draw_memory,
    draw_shares,
    hsdp_weights,
    layers_timeline,
    measure_step,
    network,
    spent,
    step_memory,
    tiny_targets,
    train_script,
    train_step,
)

SIZES = {"words": 96, "width": 256, "heads": 4, "layers": 4, "length": 128}
UNIT = 4 * 8 * 128 * 256  # bytes of a number for each sequence, token and feature


def wide(recompute=False):
    model = LanguageModel(**SIZES)
    for block in model.blocks if recompute else ():
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    return model


@pytest.mark.slow
def test_parameters_are_counted_without_memory():
    counted = count_parameters(**SIZES)
    assert counted == sum(p.numel() for p in LanguageModel(**SIZES).parameters())
    assert count_parameters(words=32_000, width=16_384, layers=100, length=8) > 3e11


def test_a_step_learns_and_leaves_no_gradients():
    torch.manual_seed(0)
    model, X, notes = LanguageModel(), torch.arange(64).view(1, 64), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def loss():
        return nn.functional.cross_entropy(model(X).flatten(0, 1), X.flatten()).item()

    def note():
        notes.append(model.head.weight.grad is None)

    before = loss()
    for _ in range(3):
        train_step(model, optimizer, X, note)
    assert loss() < before - 0.1
    assert notes == 3 * [True, False]
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize(("recompute", "count"), [(False, 16), (True, 1)])
def test_memory_of_a_step_is_noted_block_by_block(recompute, count):
    step = step_memory(lambda: wide(recompute), batch=8, tokens=128)
    assert step.kept_by_blocks == pytest.approx([count * UNIT] * 3, rel=0.02)
    assert step.kept[0] == pytest.approx(12 * count_parameters(**SIZES), rel=0.02)
    assert step.kept[-1] == pytest.approx(step.kept[0], rel=0.02)
    assert step.times == sorted(step.times)
    assert step.times[0] == 0
    assert step.seconds == step.times[-1] > 0
    assert step.peak == max(step.most) >= max(step.kept)
    assert step.times[step.most.index(step.peak)] == step.at_peak * step.seconds


@pytest.mark.slow
def test_adamw_needs_more_by_default():
    few = {"batch": 1, "tokens": 1}
    states = 16 * count_parameters(**SIZES)
    assert step_memory(wide, **few).peak == pytest.approx(states, rel=0.05)
    assert step_memory(wide, fused=None, **few).peak == pytest.approx(1.25 * states, rel=0.05)


def test_plots_show_what_they_are_given():
    step = step_memory(wide, batch=8, tokens=128)
    draw_memory({"one": step, "two": step}, constant=step.kept[0])
    ax = plt.gca()
    lines = [line.get_ydata() for line in ax.get_lines()]
    assert max(lines[0]) == pytest.approx(step.peak / 1e9)
    assert lines[2][0] == pytest.approx(step.kept[0] / 1e9)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one", "two"]
    draw_shares({128: 0.5, 256: 0.75}, limit=200)
    line, limit = plt.gca().get_lines()
    assert list(line.get_xdata()) == [128, 256]
    assert list(line.get_ydata()) == [50, 75]
    assert limit.get_xdata()[0] == 200
    plt.close("all")


def test_ranks_have_equal_weights_and_other_data():
    one, other = network(4, 3), network(4, 3)
    assert len(one) == 3
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
    mine, yours = list(batches(0, 4)), list(batches(1, 4))
    assert [x.shape for x in mine] == 3 * [(8, 4)]
    assert not any(torch.equal(a, b) for a in mine for b in (*yours, *mine) if a is not b)


@pytest.mark.long
@pytest.mark.process
def test_ddp_and_hsdp_train_on_the_data_of_all_ranks():
    model = network(16, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for parts in zip(*(batches(rank, 16) for rank in range(4)), strict=True):
        (model(torch.cat(parts)) - 1).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    alone = [p.detach() for p in model.parameters()]
    weights, calls = hsdp_weights((2, 2))
    for trained in ddp_weights(4), weights:
        for a, b in zip(trained, alone, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-5)
    assert calls["all_reduce"] == 4 * 3 * 4  # layers, steps, ranks
    assert calls["reduce_scatter"] == 4 * 3 * 4


def waits(layer):
    """Gather something before the forward pass of a layer, and wait for it."""

    def gather(*_):
        part = torch.ones(2**20, device=torch.accelerator.current_accelerator())
        dist.all_gather_into_tensor(part.new_empty(8 * 2**20), part)

    layer.register_forward_pre_hook(gather)


@pytest.mark.process
def test_a_timeline_is_that_of_one_step():
    timeline = layers_timeline(waits, tokens=64, width=64, depth=3)
    names = [span.name for span in timeline.lanes()["rank 0 sim:0", "comm"]]
    assert names == 3 * ["all_gather"]
    assert 0 < spent(timeline) < timeline.end - timeline.start
    assert spent(timeline, "comm") > 0
    sharded = layers_timeline(fully_shard, tokens=64, width=64, depth=3)
    names = [span.name for span in sharded.lanes()["rank 0 sim:0", "comm"]]
    assert names.count("all_gather") == 2 * 3
    assert names.count("reduce_scatter") == 3


def test_the_share_of_kernels_is_of_the_whole_time():
    lanes = {("rank 0 sim:0", "compute"): [SimpleNamespace(duration=1.0)] * 3}
    timeline = SimpleNamespace(lanes=lambda: lanes, start=2.0, end=6.0)
    assert busy_share(timeline) == 0.75


def shard(model, **how):
    for block in model.blocks:
        fully_shard(block, **how)
    return fully_shard(model, **how)


@pytest.mark.long
@pytest.mark.process
def test_a_step_of_a_sharded_model_is_measured():
    few = {"batch": 1, "tokens": 16}
    step = measure_step(shard, SIZES, **few)
    assert step.calls["all_gather"] == 2 * 4 + 1
    assert step.calls["reduce_scatter"] == 4 + 1
    parameters = count_parameters(**SIZES)
    assert 16 * parameters / 2 < step.peak < 16 * parameters
    kept = measure_step(partial(shard, reshard_after_forward=False), SIZES, **few)
    assert kept.calls["all_gather"] == 4 + 1
    more = measure_step(shard, SIZES, batch=32, tokens=128)
    assert more.seconds > step.seconds
    assert more.peak > step.peak


@pytest.mark.slow
def test_adamw_on_the_host_takes_longer_for_more_parameters():
    one = adam_seconds(10**6)
    assert adam_seconds(3 * 10**6) == pytest.approx(3 * one)
    assert 1e-9 < one / 10**6 < 1e-7


def test_targets_are_tiny():
    model, X, y = tiny_targets(torch.device("cpu"))
    assert (y - 1e-3 * X.roll(1, 1)).abs().max() == 0
    loss = nn.functional.mse_loss(model(X), y)
    loss.backward()
    assert model[0].weight.grad.half().count_nonzero() == 0
    assert model[0].weight.grad.count_nonzero() > 0


SCRIPT = """
import argparse, os
import torch.distributed as dist
parser = argparse.ArgumentParser()
parser.add_argument("--loss", default="1.5")
args = parser.parse_args()
dist.init_process_group("gloo")
if dist.get_rank() == 0:
    print(f"step 0: loss {args.loss}, norm {dist.get_world_size()}")
    print("tested: loss 1.25")
if args.loss == "nan":
    raise ValueError("no loss")
"""


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize("simulated", [False, True])
def test_a_script_is_started_and_its_losses_are_read(tmp_path, simulated):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    found = train_script(script, 2, "--loss", "2.5", simulated=simulated)
    assert found == ([(2.5, 2.0)], 1.25)
    with pytest.raises(RuntimeError, match="no loss"):
        train_script(script, 1, "--loss", "nan", simulated=simulated)

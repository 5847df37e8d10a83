"""The analytic step of a transformer: its terms, one by one."""

import dataclasses

import pytest

from benchmarks.published.families.transformer_step import Split, Transformer, predict_step
from simgpu.network.cluster import find_cluster
from simgpu.network.collective_costs import cost

MODEL = Transformer(hidden=2048, heads=16, layers=16, seq=1024)
NODE = find_cluster("dgx-a100")
ONE = Split(tensor=1, data=1, pipeline=1, batch=16, micro_batch=4)


def split(**changes):
    return dataclasses.replace(ONE, **changes)


def terms(step):
    return dataclasses.asdict(step)


def test_parameters_of_gpt2_are_those_that_are_known():
    gpt2 = Transformer(hidden=768, heads=12, layers=12, seq=1024, vocabulary=50257)
    assert gpt2.parameters == pytest.approx(124.4e6, rel=1e-3)


def test_one_gpu_computes_and_nothing_else():
    step = predict_step(MODEL, ONE, NODE, launch=0.0)
    for name in ("tensor_parallel", "bubble", "sends", "data_parallel", "embedding", "host"):
        assert getattr(step, name) == 0
    assert step.seconds == pytest.approx(sum(terms(step).values()))
    assert step.recompute < step.forward < step.backward


def test_no_gpu_is_faster_than_its_peak():
    """6 FLOPs a parameter and token, 2 more for computing the forward again."""
    tokens = 16 * 1024
    flops = 8 * MODEL.layers * MODEL.layer_parameters + 6 * MODEL.vocabulary * MODEL.hidden
    step = predict_step(MODEL, ONE, NODE)
    assert 1.2 < step.seconds / (flops * tokens / 312e12) < 3
    plain = predict_step(MODEL, ONE, NODE, recompute=False)
    assert step.seconds - plain.seconds == pytest.approx(step.recompute)


def test_replicas_share_the_batch_and_sum_gradients():
    step = predict_step(MODEL, split(data=4), NODE, launch=0.0)
    alone = predict_step(MODEL, ONE, NODE, launch=0.0)
    assert step.forward == pytest.approx(alone.forward / 4)
    reduce = cost("all_reduce", 2 * MODEL.parameters, range(4), NODE)
    assert step.data_parallel == reduce.seconds
    hidden = predict_step(MODEL, split(data=4), NODE, overlap=True)
    assert hidden.data_parallel < step.data_parallel


def test_tensor_parallel_ranks_share_layers_and_sum_activations():
    step = predict_step(MODEL, split(tensor=4), NODE, launch=0.0)
    alone = predict_step(MODEL, ONE, NODE, launch=0.0)
    assert alone.forward / 4 < step.forward < alone.forward / 2
    reduce = cost("all_reduce", 2 * 4 * 1024 * 2048, range(4), NODE).seconds
    assert step.tensor_parallel == pytest.approx(4 * 16 * 6 * reduce)
    without = predict_step(MODEL, split(tensor=4), NODE, recompute=False)
    assert without.tensor_parallel == pytest.approx(4 * 16 * 4 * reduce)


def test_the_bubble_is_that_of_one_forward_one_backward():
    """(p - 1) / m of the time in which a stage's layers compute."""
    stages = predict_step(MODEL, split(pipeline=4), NODE, launch=0.0)
    alone = predict_step(MODEL, ONE, NODE, launch=0.0)
    head = predict_step(dataclasses.replace(MODEL, layers=1), ONE, NODE, launch=0.0)
    layers = (alone.forward + alone.recompute + alone.backward) - (
        head.forward + head.recompute + head.backward
    )
    assert stages.bubble == pytest.approx(3 / 4 * layers / 15 * 16 / 4)
    assert stages.sends > 0
    assert stages.embedding > 0
    more = predict_step(MODEL, split(pipeline=4, micro_batch=1), NODE, launch=0.0)
    assert more.bubble < stages.bubble


def test_small_layers_wait_for_the_host_and_large_ones_do_not():
    small = Transformer(hidden=256, heads=4, layers=16, seq=128)
    waiting = predict_step(small, ONE, NODE, launch=40e-6)
    assert waiting.host > waiting.forward + waiting.recompute + waiting.backward
    one = predict_step(dataclasses.replace(small, layers=1), ONE, NODE, launch=40e-6)
    # All launches of 15 layers and 4 micro-batches, however little there is to compute.
    busy = ("forward", "recompute", "backward", "host")
    found = sum(getattr(waiting, name) - getattr(one, name) for name in busy)
    assert found == pytest.approx(15 * 4 * (24 + 24 + 44) * 40e-6)
    large = Transformer(hidden=8192, heads=64, layers=2, seq=2048)
    assert predict_step(large, ONE, NODE, launch=40e-6).host == 0
    slower = dataclasses.replace(NODE.gpu, launch_overhead=40e-6)
    same = predict_step(small, ONE, dataclasses.replace(NODE, gpu=slower))
    assert terms(same) == terms(waiting)


def test_replicas_that_share_a_card_wait_for_each_other():
    cloud = find_cluster("cloud-a100", 2)
    wide, apart = (
        predict_step(MODEL, split(tensor=tensor, data=2, batch=8), cloud).data_parallel
        for tensor in (8, 1)
    )
    # 8 groups of one GPU a node, each with an eighth of the gradients, go over one card.
    pair = cost("all_reduce", 2 * MODEL.parameters, (0, 8), cloud).seconds
    assert wide == pytest.approx(pair, rel=0.05)
    assert apart < wide / 4  # neighbours on one node


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(tensor=3), "cannot be split in 3"),
        (dict(pipeline=5), "16 layers cannot be split in 5"),
        (dict(data=16), "16 ranks do not fit.*more nodes"),
    ],
)
def test_splits_that_do_not_fit_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        predict_step(MODEL, split(**{"micro_batch": 1, **changes}), NODE)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(batch=10), "10 is no multiple of 1 replicas x micro-batch 4"),
        (dict(tensor=0), "tensor is 0"),
        (dict(data=1.5), "data is 1.5"),
    ],
)
def test_bad_splits_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        split(**changes)

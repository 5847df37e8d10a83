"""What `simgpu plan` can be told of optimizer, weights and loss: by hand, words, refusals."""

import json
from dataclasses import replace
from itertools import product

import pytest
from support.programs.plan_command import plan as command

import simgpu
import simgpu as sim
from simgpu.plan.plans import parse
from simgpu.plan.request import make_request
from simgpu.plan.simulate import run, simulate
from simgpu.plan.step.job import Model, PlanError
from simgpu.plan.step.recipe import losses, names, optimizers
from simgpu.search.bounds import bounds_of, probe, probe_key

# So many weights that nothing else counts when the optimizer runs.
WIDE = Model(4096, 32, 2, 128, 65_536, gated=True, tied=False)
SMALL = Model(1024, 8, 8, 1024, 8192, gated=True, tied=False)
# Bytes of a weight: parameter, gradient, copy of 32 bits, and the optimizer's states.
STATES = {"adamw": 8, "adam": 8, "sgd": 0, "sgd-momentum": 4, "adamw-8bit": 2 + 8 / 256}
LOW_STATES = STATES | {"adamw": 4, "adam": 4, "sgd-momentum": 2}
SPLITS = {"one GPU": (1, 0), "DDP": (8, 0), "ZeRO-1": (8, 1), "FSDP2": (8, 3)}


def test_what_can_be_named_is_what_there_is():
    assert tuple(optimizers.OPTIMIZERS) == names.OPTIMIZERS
    assert tuple(losses.OF_LOGITS) == names.WHOLE_LOSSES
    assert tuple(losses.OF_HIDDEN) == names.PARTIAL_LOSSES


def job_of(gpus=1, shard=0, model=WIDE, gpu="h100", **options):
    return make_request(model, gpus=gpus, gpu=gpu, shard=shard, **options).job()


def bytes_of_weight(**options):
    """Bytes of a weight, beside what a plan without a state needs for it."""
    gpus, shard = options.pop("gpus"), options.pop("shard")
    jobs = [job_of(gpus, shard, **options | more) for more in ({}, {"optimizer": "sgd"})]
    whole = [run(job).memory for job in jobs]
    return (whole[0] - whole[1]) / WIDE.parameters


@pytest.mark.parametrize("optimizer", STATES)
@pytest.mark.parametrize("weights", ["float32", "bfloat16"])
@pytest.mark.parametrize("split", SPLITS)
def test_an_optimizer_keeps_its_states(optimizer, weights, split):
    gpus, shard = SPLITS[split]
    found = bytes_of_weight(gpus=gpus, shard=shard, optimizer=optimizer, weights=weights)
    states = (STATES if weights == "float32" else LOW_STATES)[optimizer]
    assert found == pytest.approx(states / (gpus if shard else 1), abs=0.02)


@pytest.mark.parametrize("split", ["one GPU", "DDP"])
def test_optimizers_of_matrices_keep_less(split):
    """Adafactor a number for a row and for a column, Muon one for each of a hidden layer."""
    gpus, shard = SPLITS[split]

    def bytes_of_more_layers(optimizer):
        few, many = (
            run(job_of(gpus, shard, replace(WIDE, layers=n), optimizer=optimizer)) for n in (4, 8)
        )
        return (many.memory - few.memory) / (4 * WIDE.layer_parameters)

    plain = bytes_of_more_layers("sgd")
    for optimizer, states in (("adafactor", 0), ("muon", 4), ("adamw", 8)):
        assert bytes_of_more_layers(optimizer) - plain == pytest.approx(states, abs=0.15)


def test_muon_multiplies_matrices_of_hidden_layers_alone():
    """Five times a matrix by itself, that by itself, and the sum of both by the matrix."""
    flops = {}
    for name in ("adamw", "muon"):
        run(job_of(model=SMALL, optimizer=name))
        flops[name] = sum(span.flops for span in sim.trace())
    h, inner = SMALL.hidden, SMALL.width
    shapes = [(3 * h, h), (h, h), (2 * inner, h), (h, inner)]
    each = [2 * min(shape) ** 2 * (2 * max(shape) + min(shape)) for shape in shapes]
    # Once more before the step that is measured, to make the states.
    assert flops["muon"] - flops["adamw"] == pytest.approx(2 * 5 * SMALL.layers * sum(each))


@pytest.mark.parametrize(("split", "saved"), [("one GPU", 6), ("DDP", 6), ("FSDP2", 4 / 8)])
def test_weights_without_copies_save_these_and_half_of_the_gradients(split, saved):
    """A copy of 4 bytes, and 2 of a gradient's 4; with FSDP half of both, which all ranks share.

    Gradients that are on their way to a sum have memory of their own: about that of a table.
    """
    gpus, shard = SPLITS[split]
    plain, low = (
        run(job_of(gpus, shard, optimizer="sgd", weights=weights)).memory
        for weights in ("float32", "bfloat16")
    )
    table = 2 * WIDE.vocabulary * WIDE.hidden / WIDE.parameters
    assert saved < (plain - low) / WIDE.parameters < saved + 1.2 * table


def test_less_state_takes_less_time():
    """What a kernel reads and writes for a weight, against another's, at the memory's rate."""
    seconds = {name: run(job_of(optimizer=name)).seconds for name in STATES}
    gpu = job_of().cluster.gpu
    rate = gpu.memory_bandwidth * gpu.memory_efficiency / WIDE.parameters
    moved = {name: rate * (seconds[name] - seconds["sgd"]) for name in STATES}
    assert seconds["adam"] == seconds["adamw"]
    assert moved["adamw"] == pytest.approx(28 - 12, rel=0.02)
    assert moved["sgd-momentum"] == pytest.approx(8 + 12, rel=0.02)  # three kernels
    assert moved["adamw-8bit"] == pytest.approx(4 * (1 + 4 / 256), rel=0.02)


RECIPES = [
    {"optimizer": "sgd"}, {"optimizer": "adamw-8bit"}, {"weights": "bfloat16"},
    {"weights": "bfloat16", "optimizer": "sgd-momentum"},
    {"loss": "chunked"}, {"loss": "fused"}, {"loss": "in-place"}, {"loss": "compiled"},
    {"dtype": "float32"}, {"dtype": "tf32"},
]  # fmt: skip


WHOLE = [
    {"optimizer": "adafactor"}, {"optimizer": "muon"}, {"optimizer": "muon", "weights": "bfloat16"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("recipe", "split"),
    [*product(RECIPES, [*SPLITS.values(), (8, 2)]), *product(WHOLE, [(1, 3), (8, 0)])], ids=str,
)  # fmt: skip
def test_bounds_of_a_recipe_are_below_what_is_simulated(recipe, split):
    job = job_of(*split, SMALL, micro_batch=2, **recipe)
    step = simulate(job)
    for bounds in (bounds_of(job), bounds_of(job, probe(probe_key(job)))):
        assert 0 < bounds.seconds <= step.seconds
        assert 0 < bounds.memory <= 1.0001 * step.memory


@pytest.mark.parametrize("shard", [0, 3])
@pytest.mark.parametrize("recompute", ["every:2", "every:3", "first:2"])
def test_layers_that_are_not_alike_are_extended(recompute, shard):
    job = job_of(8, shard, replace(SMALL, layers=17), recompute=recompute)
    extended, full = simulate(job), run(job)
    assert extended.seconds == pytest.approx(full.seconds, rel=0.005)
    assert extended.memory == pytest.approx(full.memory, rel=0.01)
    plain, probed = bounds_of(job), bounds_of(job, probe(probe_key(job)))
    for bounds in (plain, probed):
        assert bounds.seconds <= full.seconds
        assert bounds.memory <= full.memory
    assert plain.seconds < 0.9 * probed.seconds


def test_products_of_rounded_numbers_take_less_time_and_no_less_memory():
    """TF32 rounds what products read; all numbers that are kept have 32 bits, as without."""
    plain, rounded, half = (
        run(job_of(model=SMALL, micro_batch=16, optimizer="sgd", dtype=name))
        for name in ("float32", "tf32", "bfloat16")
    )
    assert rounded.memory == plain.memory
    assert half.seconds < rounded.seconds < 0.6 * plain.seconds
    reports = [simgpu.plan("gpt2-124m", gpus=1, dtype=name) for name in ("float32", "tf32")]
    assert [report.dtype for report in reports] == ["float32", "tf32"]
    assert [report.kind.numbers for report in reports] == 2 * ["32-bit"]
    rates = job_of().cluster.gpu.flops
    assert [job_of(dtype=name).peak for name in ("float32", "tf32")] == [
        rates["float32"], rates["tf32"]
    ]  # fmt: skip


def test_more_layers_again_take_longer_and_need_less():
    names = "none", "every:4", "every:2", "first:6", "full"
    steps = [run(job_of(1, 0, SMALL, micro_batch=8, recompute=name)) for name in names]
    assert steps == sorted(steps, key=lambda step: step.seconds)
    assert steps == sorted(steps, key=lambda step: -step.memory)


def test_names_of_plans_that_recompute_some_layers():
    for text in ("mb1,recompute=every:2", "tp2,mb1,recompute=first:3"):
        assert str(parse(text)) == text


def test_a_search_and_flags_of_some_layers(capsys):
    options = ["gpt2-124m", "--gpus", 2, "--global-batch", 4, "--tp", 1, "--pp", 1, "--cp", 1]
    options += ["--shard", 1, "--micro-batch", 1, "--recompute"]
    assert "recompute=every:2  " in command(capsys, *options, "every:2", "--search")[1]
    text = command(capsys, *options, "first:3", "--export", "megatron")[1]
    assert "--recompute-method block\n--recompute-num-layers 3" in text
    text = command(capsys, *options, "every:2", "--export", "torchtitan")[1]
    assert "activation-checkpoint:none\n" in text
    assert "# recompute=every:2 has no flag here, and nothing is recomputed" in text


def test_logits_in_chunks_and_no_logits_need_less():
    """Whole in 32 bits, so is its gradient; in chunks the loss alone; fused neither."""
    model = Model(1024, 8, 2, 8192, 131_072, gated=True, tied=False)
    peaks = {
        name: run(job_of(model=model, loss=name, optimizer="sgd")).memory
        for name in ("eager", "chunked", "chunked:32", "fused")
    }
    logits = model.seq * model.vocabulary
    assert 4 * logits < peaks["eager"] - peaks["chunked"] < 6 * logits
    assert 0 < peaks["chunked"] - peaks["chunked:32"] < 1.5 * logits
    assert peaks["chunked:32"] - peaks["fused"] > 3.5 * logits


def test_a_recipe_is_named(capsys):
    options = ["gpt2-124m", "--gpus", 4, "--optimizer", "sgd", "--weights", "bfloat16",
               "--loss", "chunked:4"]  # fmt: skip
    code, text = command(capsys, *options)
    assert code == 0
    assert "ZeRO stage 3, optimizer sgd, bfloat16 weights, loss chunked:4, recompute" in text
    assert "few steps or none with optimizer sgd and bfloat16 weights and loss chunked:4" in text
    found = json.loads(command(capsys, *options, "--json")[1])
    named = [found[name] for name in ("optimizer", "weights", "loss")]
    assert named == ["sgd", "bfloat16", "chunked:4"]


def test_the_usual_recipe_is_not(capsys):
    text = command(capsys, "gpt2-124m", "--gpus", 4)[1]
    assert "optimizer" not in text
    assert "weights" not in text
    assert "loss" not in text


def test_a_search_keeps_the_recipe(capsys):
    options = ["gpt2-124m", "--gpus", 2, "--global-batch", 4, "--weights", "bfloat16"]
    text = command(capsys, *options, "--search")[1]
    assert "bfloat16, bfloat16 weights; searched: mesh" in text
    assert "few steps or none with bfloat16 weights" in text
    assert "# --weights bfloat16 is not in these" in command(
        capsys, *options, "--export", "megatron"
    )[1]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "lion"}, "--optimizer lion: give one of adamw, adam, sgd"),
        ({"optimizer": "muon"}, "--shard splits them; give --shard 0, or another optimizer"),
        ({"optimizer": "adafactor", "tp": 2, "shard": 0}, "--tp splits them; give --tp 1, or"),
        ({"loss": "chunked:0"}, "--loss chunked:0: give one of eager, compiled, in-place, chunked"),
        ({"loss": "fused:2"}, "--loss fused:2: give one of"),
        ({"loss": "fused", "tp": 2, "gpus": 2}, "which --tp 2 splits; give --tp 1"),
        ({"loss": "chunked:2000"}, "a micro-batch has fewer tokens; give at most 1024"),
        ({"recompute": "every:1"}, "full, every:N (2 or more), first:N"),
        ({"recompute": "every:13"}, "--recompute every:13: a stage has 12 layers; give at most 12"),
        ({"recompute": "first:4", "pp": 4, "gpus": 4}, "first:4: a stage has 3 layers"),
        ({"weights": "float16"}, "--weights float16: give one of float32, bfloat16"),
        ({"weights": "bfloat16", "dtype": "float16"}, "needs products of bfloat16, not of float16"),
        ({"weights": "bfloat16", "dtype": "tf32"}, "needs products of bfloat16, not of tf32"),
        ({"dtype": "tf32", "gpu": "v100"}, "--dtype tf32: v100 has no such units"),
        ({"weights": "bfloat16", "gpu": "v100"}, "needs products of bfloat16, not of float16"),
    ],
)
def test_what_makes_no_sense(options, message):
    with pytest.raises(PlanError) as error:
        simgpu.plan("gpt2-124m", **options)
    assert message in str(error.value)


OWN = """
import torch

def model():
    return torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)])

def batch(size):
    return torch.zeros(size, 4096)
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN, encoding="utf-8")
    return path


@pytest.mark.parametrize("shard", [0, 3])
def test_a_model_of_ones_own_in_32_bits(own, shard):
    half, plain, rounded = (
        simgpu.plan(own, gpus=2, shard=shard, micro_batch=4096, dtype=dtype)
        for dtype in ("bfloat16", "float32", "tf32")
    )
    assert half.step_time_seconds < rounded.step_time_seconds < plain.step_time_seconds
    assert rounded.peak_memory_bytes == plain.peak_memory_bytes


@pytest.mark.parametrize("shard", [0, 3])
def test_a_model_of_ones_own(own, shard):
    options = {"gpus": 2, "shard": shard}
    adam, sgd, low = (
        simgpu.plan(own, **options, **more)
        for more in ({}, {"optimizer": "sgd"}, {"optimizer": "sgd", "weights": "bfloat16"})
    )
    states = 8 * adam.parameters / (2 if shard else 1)
    assert adam.peak_memory_bytes - sgd.peak_memory_bytes >= 0.9 * states
    assert low.peak_memory_bytes < sgd.peak_memory_bytes
    assert low.step_time_seconds < sgd.step_time_seconds < adam.step_time_seconds


def test_a_model_of_ones_own_with_adafactor(own):
    adam, few = (
        simgpu.plan(own, gpus=2, shard=0, optimizer=name) for name in ("adamw", "adafactor")
    )
    assert adam.peak_memory_bytes - few.peak_memory_bytes > 7 * adam.parameters
    with pytest.raises(PlanError, match="adafactor needs whole matrices on each rank, and --shard"):
        simgpu.plan(own, gpus=2, optimizer="adafactor")
    with pytest.raises(PlanError, match=r"muon comes later for a \.py file"):
        simgpu.plan(own, gpus=1, optimizer="muon")


def test_muon_for_experts_is_refused():
    with pytest.raises(PlanError, match=r"three dimensions torch\.optim\.Muon refuses"):
        simgpu.plan("mixtral-8x7b", shard=0, optimizer="muon")


@pytest.mark.long
def test_a_search_with_muon_splits_no_matrix(capsys):
    options = ["gpt2-124m", "--gpus", 2, "--global-batch", 4, "--optimizer", "muon", "--search"]
    assert "zero0" in command(capsys, *options)[1]


def test_a_model_of_ones_own_has_no_states_of_8_bits(own):
    with pytest.raises(PlanError, match=r"adamw-8bit comes later for a \.py file; give adamw"):
        simgpu.plan(own, optimizer="adamw-8bit")

"""Steps as programs of folded ranks: extended ones, and what is worked out by hand."""

from dataclasses import replace

import pytest

import simgpu as sim
from simgpu.network.cluster import build_cluster
from simgpu.plan.presets import PRESETS
from simgpu.plan.simulate import run, simulate
from simgpu.plan.step.job import Job, Model, Program
from simgpu.plan.step.program import step

NODE = build_cluster(8, "a100")
TWO = build_cluster(16, "a100", "nvlink3", 2, "hdr")
SMALL = Model(hidden=1024, heads=8, layers=6, seq=1024, vocabulary=8192)
# So large that neither launches nor overheads count.
LARGE = Model(hidden=8192, heads=64, layers=2, seq=2048, vocabulary=8192)
PLAIN = Program("none", overlap=False, reduce_bytes=2)
# Bytes of a parameter that the optimiser moves: the gradient is emptied and cast from 2 to 4 bytes,
# Adam reads four numbers of 4 bytes and writes three, and the parameter is cast from 4 to 2.
ADAM = 2 + 6 + 28 + 6
CORE = Job(LARGE, PLAIN, build_cluster(1, "a100"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "tensor", "data", "pipeline", "micro_batches"),
    [
        (Program(), 1, 8, 1, 4),
        (Program("grad_op", recompute="full"), 1, 8, 1, 3),
        (Program("optimizer", sequence_parallel=True), 4, 2, 1, 3),
        pytest.param(PLAIN, 2, 2, 2, 8, marks=pytest.mark.exhaustive),
    ],
)
def test_an_extended_step_is_the_full_one(program, tensor, data, pipeline, micro_batches):
    model = replace(SMALL, layers=6 * pipeline)
    job = Job(model, program, NODE, tensor, data, pipeline, 2, micro_batches)
    extended, full = simulate(job), run(job)
    assert extended.seconds == pytest.approx(full.seconds, rel=0.002)
    assert extended.memory == pytest.approx(full.memory, rel=0.05)


@pytest.mark.sample(4)
@pytest.mark.slow
@pytest.mark.parametrize("program", [
    Program(), Program(recompute="full"), Program("grad_op"), Program("optimizer", recompute="full")
])  # fmt: skip
def test_the_peak_of_a_deep_model_is_the_full_one(program):
    """With few layers it is where the loss is computed, with many where all gradients are there."""
    job = Job(replace(SMALL, layers=32, vocabulary=131_072), program, NODE, data=8)
    extended, full = simulate(job), run(job)
    assert extended.memory == pytest.approx(full.memory, rel=0.01)
    assert extended.reserved == pytest.approx(full.reserved, rel=0.15)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("context", [2, 8])
def test_a_long_sequence_reserves_what_the_full_step_does_to_a_few_percent(context):
    """Reserved memory grows with the layers in steps, so a line through two depths misses them."""
    model = replace(PRESETS["llama3-8b"], seq=context * 32_768)
    program = Program(recompute="full", compiled=True, float8=True)
    job = Job(model, program, build_cluster(8, "h100"), data=8, context=context)
    extended, full = simulate(job), run(job)
    assert extended.memory == pytest.approx(full.memory, rel=1e-6)
    assert extended.reserved == pytest.approx(full.reserved, rel=0.05)


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.parametrize("chunks", [4, 8])
def test_many_stages_of_a_rank_are_extended_too(chunks):
    """The bubble becomes smaller with more micro-batches, extended and in full."""
    cluster = build_cluster(8, "h100", "nvlink4", 8, "ndr")
    model = replace(LARGE, layers=8 * chunks, heads=32, hidden=4096)
    job = Job(model, Program("optimizer", chunks=chunks), cluster, pipeline=8, micro_batches=16)
    waits = []
    for count in (16, 24):
        one = replace(job, micro_batches=count)
        extended, full = simulate(one), run(one)
        assert extended.seconds == pytest.approx(full.seconds, rel=0.03)
        assert extended.memory == pytest.approx(full.memory, rel=0.01)
        shares = [f.causes["waiting for others"] / f.seconds for f in (extended, full)]
        assert shares[0] == pytest.approx(shares[1], abs=0.03)
        waits.append(shares)
    assert all(few > many for few, many in zip(*waits, strict=True))


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", [{}, {"schedule": "gpipe"}, {"chunks": 2}])
def test_stages_are_extended_too(kind):
    cluster = build_cluster(40, "a100", "nvlink3", 5, "hdr")
    model = replace(SMALL, layers=10, vocabulary=131_072)  # the last rank needs most in small ones
    job = Job(model, replace(PLAIN, **kind), cluster, 8, 1, 5, 1, 20)
    extended, full = simulate(job), run(job)
    assert extended.seconds == pytest.approx(full.seconds, rel=0.015)
    assert extended.memory == pytest.approx(full.memory, rel=0.03)
    assert extended.reserved == pytest.approx(full.reserved, rel=0.1)
    for cause, seconds in extended.causes.items():
        assert seconds == pytest.approx(full.causes[cause], abs=0.03 * full.seconds), cause


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("stages", "chunks", "micro_batches"),
    [(8, 1, 2), (6, 2, 6), (5, 2, 10), (6, 1, 6), (12, 1, 10), (6, 2, 12), (5, 2, 5), (8, 2, 16)],
)
def test_few_micro_batches(stages, chunks, micro_batches):
    """They fill many stages in another way than few: with fewer than stages, all are kept."""
    cluster = build_cluster(2 * stages, "a100", "nvlink3", stages, "hdr")
    model = replace(SMALL, layers=2 * stages * chunks)
    job = Job(model, replace(PLAIN, chunks=chunks), cluster, 1, 2, stages, 2, micro_batches)
    extended, full = simulate(job), run(job)
    assert extended.seconds == pytest.approx(full.seconds, rel=0.02)
    assert extended.memory == pytest.approx(full.memory, rel=0.05)


def alone(**changes):
    job = Job(LARGE, PLAIN, build_cluster(1, "a100"), micro_batch=2)
    return run(replace(job, **changes))


def test_a_step_takes_what_its_products_take():
    flops = LARGE.flops(2)
    gpu = NODE.gpu
    least = flops / (gpu.flops["bfloat16"] * gpu.compute_efficiency)
    assert least < alone().seconds < 1.35 * least


def test_twice_the_work_takes_twice_the_time_and_recomputation_a_forward_pass_more():
    one, two = alone(), alone(micro_batches=2)
    adam = ADAM * LARGE.parameters / (NODE.gpu.memory_bandwidth * NODE.gpu.memory_efficiency)
    assert two.seconds - adam == pytest.approx(2 * (one.seconds - adam), rel=0.01)
    again, stopped = (alone(program=replace(PLAIN, recompute=r)) for r in ("all", "full"))
    peak = NODE.gpu.flops["bfloat16"] * NODE.gpu.matmul_efficiency
    forward = (LARGE.flops(2, recompute=True) - LARGE.flops(2)) / peak
    assert again.seconds - one.seconds == pytest.approx(forward, rel=0.1)
    assert one.seconds < stopped.seconds < again.seconds  # without the last product
    more = {"micro_batch": 6}  # than Adam needs
    assert alone(program=replace(PLAIN, recompute="all"), **more).memory < alone(**more).memory


def test_more_gpus_share_the_work():
    job = Job(LARGE, PLAIN, NODE, tensor=8, micro_batch=2)
    alone_, shared = alone().seconds, run(job).seconds
    assert alone_ / 8 < shared < alone_ / 3


def test_memory_by_hand():
    """Parameters and gradients of 2 bytes each, three numbers of 4: 16 bytes a parameter."""
    job = Job(LARGE, PLAIN, build_cluster(1, "a100"), micro_batch=6)  # more than Adam needs
    layers = [run(replace(job, model=replace(LARGE, layers=n))).memory for n in (2, 4)]
    activations = [
        run(replace(job, model=replace(LARGE, layers=n), micro_batch=12)).memory for n in (2, 4)
    ]
    kept = (activations[1] - activations[0]) - (layers[1] - layers[0])
    states = layers[1] - layers[0] - kept
    assert states == pytest.approx(2 * 16 * LARGE.layer_parameters, rel=0.01)


def test_fsdp_shards_sixteen_bytes_of_a_parameter():
    sharded = [
        run(Job(replace(LARGE, layers=n), Program(recompute="full"), NODE, data=8)).memory
        for n in (3, 5)
    ]
    # At the peak, behind the backward pass, no activations are left.
    assert sharded[1] - sharded[0] == pytest.approx(4 * LARGE.layer_parameters, rel=0.01)


def test_activations_of_a_layer_by_hand():
    """Korthikanti et al.: s b h (10 + 24/t + 5 a s/(h t)) bytes, all over t if s is split."""
    model = replace(SMALL, dropout=True)
    for sequence in (False, True):
        program = replace(PLAIN, sequence_parallel=sequence, attention="unfused")
        peaks = {
            (n, b): run(Job(replace(model, layers=n), program, NODE, 8, micro_batch=b)).memory
            for n in (2, 4)
            for b in (1, 2)
        }
        kept = (peaks[4, 2] - peaks[4, 1] - peaks[2, 2] + peaks[2, 1]) / 2
        s, h, a, t = model.seq, model.hidden, model.heads, 8
        split = 34 / t + 5 * a * s / (h * t)
        wanted = s * h * (split if sequence else 10 + 24 / t + 5 * a * s / (h * t))
        assert kept == pytest.approx(wanted, rel=0.03)


def test_communication_that_overlaps_takes_less_time():
    job = Job(SMALL, Program("optimizer"), TWO, data=16, micro_batch=1)
    hidden, waited = (run(replace(job, program=Program("optimizer", overlap=o))).seconds
                      for o in (True, False))  # fmt: skip
    assert hidden < waited


@pytest.mark.parametrize("sequence", [False, True])
def test_sums_of_tensor_parallelism_hide_behind_products(sequence):
    """In the backward pass: the gradients of weights need not wait for the inputs' gradients."""
    job = Job(LARGE, Program("none", "none", sequence), NODE, 8, micro_batch=1)
    hidden, waited = (
        run(replace(job, program=replace(job.program, overlap=o))).seconds for o in (True, False)
    )
    assert 0.7 * waited < hidden < 0.99 * waited


def test_what_is_compiled_or_in_eight_bits_takes_less_time():
    llama = replace(LARGE, gated=True, kv_heads=8, inner=8192)
    plain, fused, float8 = (
        alone(model=llama, program=program, cluster=build_cluster(1, "h100")).seconds
        for program in (PLAIN, replace(PLAIN, compiled=True),
                        replace(PLAIN, compiled=True, float8=True))
    )  # fmt: skip
    assert plain > fused > float8 > fused / 2


@pytest.mark.parametrize("tensor", [1, 8])
@pytest.mark.parametrize("gated", [False, True])
def test_what_is_compiled_has_the_products_of_eager_code(gated, tensor):
    """And less of all other kernels."""
    model = replace(LARGE, gated=gated, biases=not gated, dropout=not gated)
    seconds = []
    for program in (PLAIN, replace(PLAIN, fused=True), replace(PLAIN, compiled=True)):
        program = replace(program, sequence_parallel=True)
        run(Job(model, program, NODE, tensor=tensor, data=8 // tensor))
        kernels = [s for s in sim.trace() if s.engine == "compute"]
        of_products = [s for s in kernels if s.flops]
        own = sum(s.end - s.start for s in of_products)
        seconds.append((len(of_products), own, sum(s.end - s.start for s in kernels) - own))
    eager, fused, compiled = seconds
    assert fused[:2] == pytest.approx(eager[:2])
    assert compiled[:2] == pytest.approx(eager[:2])
    assert eager[2] > max(fused[2], compiled[2])


def test_casts_to_eight_bits_pay_only_if_they_are_compiled():
    """As torchao says of its own; the output layer stays in 16 bits."""
    llama = replace(LARGE, gated=True, inner=8192)
    h100 = build_cluster(1, "h100")
    seconds = {
        (fused, eight): alone(
            model=llama, program=replace(PLAIN, compiled=fused, float8=eight), cluster=h100
        ).seconds
        for fused in (False, True)
        for eight in (False, True)
    }
    assert seconds[True, True] < seconds[True, False] < seconds[False, False]
    assert seconds[False, False] < seconds[False, True]
    names = [s.name for s in sim.trace() if s.engine == "compute"]
    assert names.count("_scaled_mm") == 12 * llama.layers  # four weights, three products each


def test_attention_in_full_counts_as_published():
    model = Model(4096, 32, 32, 2048, 50_368)
    tokens = 6 * (model.parameters - model.seq * model.hidden) + 12 * 32 * 4096 * 2048
    assert model.flops(1) == pytest.approx(2048 * tokens)


def test_jobs_that_cannot_be_split():
    for sizes, reason in (((3, 1, 1), "is not 8 GPUs"), ((1, 2, 4), "layers cannot be split")):
        with pytest.raises(ValueError, match=reason):
            Job(SMALL, PLAIN, NODE, *sizes)
    with pytest.raises(ValueError, match="multiple of the 8"):
        Job(SMALL, Program("hybrid"), NODE, 2, 4)


def test_what_is_recomputed_saves_memory_and_costs_time():
    """Attention alone adds the fused kernel's forward pass, and nothing of the products."""
    names = "none", "attention", "products", "full"
    found = {name: alone(program=replace(PLAIN, recompute=name)) for name in names}
    seconds = [found[name].seconds for name in names]
    memory = [found[name].memory for name in names]
    assert seconds == sorted(seconds)
    assert memory == sorted(memory, reverse=True)
    flops = {name: kernels(replace(CORE, program=replace(PLAIN, recompute=name)))
             for name in names[:2]}  # fmt: skip
    causal = 2 * LARGE.layers * LARGE.hidden * LARGE.seq**2  # of a sequence, forward
    assert flops["attention"] - flops["none"] == pytest.approx(causal, rel=0.02)


def test_what_one_job_recomputes_does_not_change_the_next():
    job = Job(SMALL, replace(PLAIN, recompute="full"), NODE, 2, 2, 2)
    before = run(job)
    run(replace(job, program=replace(PLAIN, recompute="all")))
    assert run(job) == before


def test_parameters_of_known_models():
    """Counts of the sources; without norms, which are less than a thousandth."""
    known = {
        "gpt2-124m": 124.4e6, "gpt2-1.5b": 1557.6e6, "gpt3-175b": 174.6e9, "llama2-7b": 6.738e9,
        "llama2-70b": 68.98e9, "llama3-8b": 8.03e9, "llama3-70b": 70.55e9, "llama3-405b": 405.85e9,
        "mixtral-8x7b": 46.7e9, "mixtral-8x22b": 140.6e9,
    }  # fmt: skip
    for name, count in known.items():
        assert PRESETS[name].parameters == pytest.approx(count, rel=0.004), name


def test_flops_of_a_step_are_six_for_a_weight_and_token_and_those_of_attention():
    """``6 N + 12 l h s`` a token, N with the output layer and the experts that work."""
    model = PRESETS["llama3-8b"]
    used = model.parameters - model.vocabulary * model.hidden  # the table is looked up
    attention = 12 * model.layers * model.hidden * model.seq
    assert model.flops(3) == 3 * model.seq * (6 * used + attention)
    experts = PRESETS["mixtral-8x7b"]
    idle = experts.layers * (experts.experts - experts.active) * experts.expert_parameters
    used = experts.parameters - idle - experts.vocabulary * experts.hidden
    assert used == pytest.approx(12.75e9, rel=0.01)
    attention = 12 * experts.layers * experts.hidden * experts.seq
    assert experts.flops(1) == experts.seq * (6 * used + attention)


def kernels(job):
    """Return the FLOPs of the kernels of a job's rank 0."""
    run(job)
    return sum(s.flops for s in sim.trace() if s.engine == "compute")


@pytest.mark.parametrize("model", [LARGE, replace(LARGE, gated=True, kv_heads=8, inner=14336)])
def test_kernels_compute_the_flops_of_the_formula(model):
    """With attention in products, which skip no pairs."""
    program = replace(PLAIN, attention="unfused")
    job = Job(model, program, build_cluster(1, "a100"), micro_batch=2)
    assert kernels(job) == pytest.approx(model.flops(2), rel=0.01)
    # The fused kernel skips half of the pairs, and computes the scores a second time.
    fused = 12 * model.layers * model.hidden * model.seq * (1 - 3.5 / 3 / 2)
    saved = kernels(job) - kernels(replace(job, program=PLAIN))
    assert saved == pytest.approx(2 * model.seq * fused, rel=0.01)


EXPERTS = replace(SMALL, gated=True, experts=8, active=2, layers=2)


@pytest.mark.parametrize(
    ("model", "degrees"),
    [
        (SMALL, {"tensor": 8, "data": 1}),
        (SMALL, {"tensor": 1, "data": 8, "context": 8}),
        (SMALL, {"tensor": 2, "data": 4, "context": 2}),
        (EXPERTS, {"tensor": 1, "data": 8, "expert": 8}),
        (EXPERTS, {"tensor": 2, "data": 4, "expert": 2}),
        (EXPERTS, {"tensor": 2, "data": 4, "expert": 8, "expert_tensor": 1}),
        (EXPERTS, {"tensor": 2, "data": 4, "expert": 2, "expert_tensor": 4}),
    ],
)
def test_all_ranks_together_compute_what_one_computes(model, degrees):
    program = replace(PLAIN, sequence_parallel=True)
    job = Job(model, program, NODE, **degrees)
    alone = Job(model, PLAIN, build_cluster(1, "a100"))
    wanted = kernels(alone) * job.sequences
    assert 8 * kernels(job) == pytest.approx(wanted, rel=0.02)


def sent(job):
    """Return the bytes of each kind of collective that rank 0 takes part in."""
    run(job)
    spans = [s for s in sim.trace() if s.engine == "comm"]
    return {kind: sum(s.bytes for s in spans if s.collective == kind)
            for kind in ("all_to_all", "all_gather")}  # fmt: skip


def test_each_token_is_sent_to_its_experts_once():
    """There and back, forward and backward; `tensor` ranks have a part of the tokens each."""
    job = Job(EXPERTS, replace(PLAIN, sequence_parallel=True), NODE, data=8, expert=4)
    tokens = 2 * EXPERTS.layers * EXPERTS.active * EXPERTS.seq * EXPERTS.hidden  # bytes
    assert sent(job)["all_to_all"] == 4 * tokens
    split = replace(job, tensor=2, data=4)
    assert sent(split)["all_to_all"] == 4 * tokens / 2
    whole = replace(split, expert=8, expert_tensor=1)
    assert sent(whole)["all_to_all"] == sent(split)["all_to_all"]
    # The ranks that split an expert gather its tokens, and backward the gradients of its results.
    assert sent(split)["all_gather"] - sent(whole)["all_gather"] == pytest.approx(2 * tokens)


@pytest.mark.sample(3)
@pytest.mark.slow
@pytest.mark.parametrize("shard", ["none", "full"])
@pytest.mark.parametrize(
    "degrees",
    [
        {"data": 8, "context": 4},
        {"data": 8, "expert": 4},
        {"tensor": 2, "data": 4, "expert": 4},
        {"tensor": 2, "data": 4, "expert": 4, "expert_tensor": 1},
    ],
)
def test_folded_ranks_take_as_long_as_all(degrees, shard):
    program = replace(PLAIN, shard=shard, sequence_parallel=True)
    job = Job(EXPERTS, program, NODE, **degrees)
    options = {"gpu": "a100", "link": "nvlink3", "numerics": False}
    found = sim.spawn(step, (job,), 8, **options)
    start, end = min(found)[0], max(end for _, end, *_ in found)
    folded = run(job)
    assert folded.seconds == pytest.approx(end - start, rel=1e-9)
    assert folded.memory == max(max(parts) for _, _, *parts, _ in found)
    assert folded.reserved == max(reserved for *_, reserved in found)


def test_the_bubble_of_a_pipeline():
    """(p - 1) / m of the time of m micro-batches (Narayanan et al., 2021, section 2.2)."""
    model = replace(LARGE, layers=4, vocabulary=1024)
    job = Job(model, replace(PLAIN, reduce_bytes=2), build_cluster(4, "a100"), pipeline=4,
              micro_batches=8)  # fmt: skip
    short, long = run(job).seconds, run(replace(job, micro_batches=12)).seconds
    one = (long - short) / 4  # of each further micro-batch
    gpu = NODE.gpu
    adam = ADAM * model.layers / 4 * model.layer_parameters / gpu.memory_bandwidth
    assert short - adam - 8 * one == pytest.approx(3 * one, rel=0.12)


def test_memory_of_each_stage_of_zero():
    """2 + 2 + 12 bytes a parameter; stage 1 shares 12 of them, stage 3 all (Rajbhandari, 2020)."""

    def of_parameter(shard, reduce_bytes):
        program = Program(shard, recompute="full", reduce_bytes=reduce_bytes)
        few, many = (
            run(Job(replace(LARGE, layers=n), program, NODE, data=8)).memory for n in (3, 5)
        )
        return (many - few - 2 * 2 * LARGE.seq * LARGE.hidden) / (2 * LARGE.layer_parameters)

    assert of_parameter("none", 2) == pytest.approx(16, rel=0.02)
    assert of_parameter("optimizer", 2) == pytest.approx(4 + 12 / 8, rel=0.25)
    assert of_parameter("full", 4) == pytest.approx(16 / 8, rel=0.15)


def test_causes_add_up_to_the_step():
    found = simulate(Job(SMALL, PLAIN, NODE, 2, 2, 2, 1, 8))
    assert sum(found.causes.values()) == pytest.approx(found.seconds)
    assert found.causes["waiting for others"] > 0.1 * found.seconds  # the bubble


@pytest.mark.parametrize("program", [PLAIN, Program("optimizer"), Program()])
def test_an_odd_vocabulary_is_multiplied_as_on_one_gpu(program):
    """Data parallel ranks have all columns; 50,257 of them are multiplied at a slower rate."""
    alone, split = (
        [
            run(Job(replace(SMALL, layers=1, vocabulary=v), kind, cluster, data=ranks)).seconds
            for v in (50_257, 50_304)
        ]
        for kind, cluster, ranks in ((PLAIN, CORE.cluster, 1), (program, NODE, 8))
    )
    assert alone[0] > 1.2 * alone[1]
    assert split[0] - split[1] == pytest.approx(alone[0] - alone[1], rel=0.05)


def test_tensor_parallel_ranks_have_equal_parts_of_a_vocabulary():
    odd, padded = (
        run(Job(replace(SMALL, layers=1, vocabulary=v), PLAIN, NODE, tensor=8))
        for v in (50_257, 50_264)
    )
    assert (odd.seconds, odd.memory) == (padded.seconds, padded.memory)

"""Published jobs as programs of folded ranks: extended steps, and what is worked out by hand."""

from dataclasses import replace

import pytest

from benchmarks.published.jobs.job import Job, Model, Program
from benchmarks.published.jobs.resnets import balance
from benchmarks.published.jobs.simulate import run, simulate
from simgpu.network.cluster import build_cluster

NODE = build_cluster(8, "a100")
TWO = build_cluster(16, "a100", "nvlink3", 2, "hdr")
SMALL = Model(hidden=1024, heads=8, layers=6, seq=1024, vocabulary=8192)
# So large that neither launches nor overheads count.
LARGE = Model(hidden=8192, heads=64, layers=2, seq=2048, vocabulary=8192)
PLAIN = Program("none", overlap=False, reduce_bytes=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "tensor", "data", "pipeline", "micro_batches"),
    [
        (Program(), 1, 8, 1, 4),
        (Program("grad_op", recompute="full"), 1, 8, 1, 3),
        (Program("optimizer", sequence_parallel=True), 4, 2, 1, 3),
        (PLAIN, 2, 2, 2, 8),
    ],
)
def test_an_extended_step_is_the_full_one(program, tensor, data, pipeline, micro_batches):
    model = replace(SMALL, layers=6 * pipeline)
    job = Job(model, program, NODE, tensor, data, pipeline, 2, micro_batches)
    extended, full = simulate(job), run(job)
    assert extended.seconds == pytest.approx(full.seconds, rel=0.002)
    assert extended.memory == pytest.approx(full.memory, rel=0.05)


@pytest.mark.slow
def test_stages_are_extended_too():
    cluster = build_cluster(40, "a100", "nvlink3", 5, "hdr")
    job = Job(replace(SMALL, layers=5), PLAIN, cluster, 8, 1, 5, 1, 9)
    assert simulate(job).seconds == pytest.approx(run(job).seconds, rel=0.01)


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
    adam = 30 * LARGE.parameters / (NODE.gpu.memory_bandwidth * NODE.gpu.memory_efficiency)
    assert two.seconds - adam == pytest.approx(2 * (one.seconds - adam), rel=0.01)
    again, stopped = (alone(program=replace(PLAIN, recompute=r)) for r in ("all", "full"))
    peak = NODE.gpu.flops["bfloat16"] * NODE.gpu.matmul_efficiency
    forward = (LARGE.flops(2, recompute=True) - LARGE.flops(2)) / peak
    assert again.seconds - one.seconds == pytest.approx(forward, rel=0.1)
    assert one.seconds < stopped.seconds < again.seconds  # without the last product
    assert again.memory < one.memory


def test_more_gpus_share_the_work():
    job = Job(LARGE, PLAIN, NODE, tensor=8, micro_batch=2)
    alone_, shared = alone().seconds, run(job).seconds
    assert alone_ / 8 < shared < alone_ / 3


def test_memory_by_hand():
    """Parameters and gradients of 2 bytes each, three numbers of 4: 16 bytes a parameter."""
    job = Job(LARGE, PLAIN, build_cluster(1, "a100"))
    layers = [run(replace(job, model=replace(LARGE, layers=n))).memory for n in (2, 4)]
    activations = [
        run(replace(job, model=replace(LARGE, layers=n), micro_batch=2)).memory for n in (2, 4)
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
    model = replace(SMALL, dropout=True, flash=False)
    for sequence in (False, True):
        program = replace(PLAIN, sequence_parallel=sequence)
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


def test_what_is_compiled_or_in_eight_bits_takes_less_time():
    llama = replace(LARGE, gated=True, kv_heads=8, inner=8192)
    plain, fused, float8 = (
        alone(model=llama, program=program).seconds
        for program in (PLAIN, replace(PLAIN, compiled=True),
                        replace(PLAIN, compiled=True, float8=True))
    )  # fmt: skip
    assert plain > fused > float8 > fused / 2


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


def test_balance_by_hand():
    assert balance([1, 1, 1, 1], 2) == [2, 2]
    assert balance([5, 1, 1, 1], 2) == [1, 3]
    assert balance([1, 2, 3, 4, 5], 3) == [3, 1, 1]


def test_what_one_job_recomputes_does_not_change_the_next():
    job = Job(SMALL, replace(PLAIN, recompute="full"), NODE, 2, 2, 2)
    before = run(job)
    run(replace(job, program=replace(PLAIN, recompute="all")))
    assert run(job) == before

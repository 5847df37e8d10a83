"""Plans of thousands of GPUs: what they cost here, and shards that are uneven or empty."""

import time
from dataclasses import replace

import pytest
import torch
from support.programs.plan_command import plan
from torch.distributed.fsdp._fully_shard import _fsdp_common

import simgpu as sim
from simgpu.network.cluster import MOST_GPUS, build_cluster
from simgpu.plan import simulate as simulate_module
from simgpu.plan.request import make_request
from simgpu.plan.simulate import Simulated, run
from simgpu.plan.step.job import Job, Model, Program
from simgpu.plan.step.program import step
from simgpu.ranks.pytorch.dtensors.chunks import Chunks
from simgpu.run.causes.shares import CAUSES

TINY = Model(hidden=64, heads=2, layers=2, seq=32, vocabulary=128)


def cpu_seconds(**options):
    job = make_request(TINY, **options).job()
    before = time.process_time()
    run(job)
    return time.process_time() - before


@pytest.mark.parametrize("options", [{}, {"tp": 2}, {"shard": 1}])
def test_thousands_of_replicas_cost_little_more_than_a_few(options):
    cpu_seconds(gpus=8, **options)  # imports
    assert cpu_seconds(gpus=16384, **options) < 5  # it was a minute


@pytest.mark.parametrize("gpus", [MOST_GPUS + 8, 100_000_000])
def test_more_gpus_than_can_be_simulated_are_refused_at_once(capsys, gpus):
    code, text = plan(capsys, "gpt2-124m", "--gpus", gpus)
    assert code == 2
    assert f"{gpus:,} GPUs are too many to simulate; give 131,072 or fewer" in text


def test_ranks_beyond_32767_have_rows_of_their_own():
    cluster = build_cluster(2**16, "a100", "nvlink3", 2**13, "hdr")
    job = Job(TINY, Program("none"), cluster, data=2**15, pipeline=2)
    assert run(job).seconds > 0


@pytest.mark.parametrize("ranks", [3, 24])
def test_the_rank_with_most_stands_for_those_with_less(ranks):
    """24 ranks: their shards of 64 rows have three rows, one, or none."""
    cluster = build_cluster(ranks, "a100", "nvlink3", -(-ranks // 3), "hdr")
    job = Job(replace(TINY, seq=2048), Program(), cluster, data=ranks, micro_batch=256)
    folded = run(job)
    starts, ends, *peaks, reserved = zip(
        *sim.spawn(
            step, (job,), ranks, gpu="a100", link="nvlink3", nodes=cluster.nodes, network="hdr",
            numerics=False,
        ),
        strict=True,
    )  # fmt: skip
    # Others launch kernels that fill up their shards, before the step and in it.
    assert folded.seconds == pytest.approx(max(ends) - max(starts), rel=0.01)
    assert folded.memory == pytest.approx(max(map(max, peaks)), rel=1e-4)
    assert folded.reserved == max(reserved)


def test_what_no_allocator_counts_is_that_of_the_part_with_most(monkeypatch):
    def run(job):
        n = job.model.layers
        return Simulated(1.0, 1.0, 1.0, dict.fromkeys(CAUSES, 0.1), ((1, 1), (1, 1)), (n, 10 * n))

    monkeypatch.setattr(simulate_module, "run", run)
    job = Job(replace(TINY, layers=16), Program("none"), build_cluster(1, "a100"))
    assert simulate_module.simulate(job).context_bytes == (4, 40)  # of 2 and 4 layers


def test_ranks_may_hold_nothing_of_a_parameter(capsys):
    code, text = plan(capsys, "gpt2-124m", "--gpus", 4096)  # rows of 768
    assert code == 0, text
    assert "ZeRO stage 3" in text


@pytest.mark.parametrize("size", [0, 1, 3, 8, 9, 10])
@pytest.mark.parametrize("count", [1, 3, 4, 7, 12])
def test_chunks_are_those_of_pytorch(size, count):
    tensor = torch.arange(2.0 * size).reshape(2, size)
    for given, dim in ((tensor, 1), (tensor.T, 0)):
        found = Chunks(given, count, dim)
        expected = _fsdp_common._chunk_with_empty(given, count, dim)
        assert len(list(found)) == len(found) == len(expected)
        assert all(map(torch.equal, found, expected))

"""No trace of a random program over streams and GPUs breaks the rules of the machine."""

from random import Random

import pytest
from support.programs import stream_programs
from support.samples.trace_rules import check_trace

import simgpu as sim


def check_programs(seed, count, length):
    random = Random(seed)
    for _ in range(count):
        k, gpu = random.randint(1, 4), random.choice(sorted(sim.GPUS))
        link, program = random.choice(sorted(sim.LINKS)), random.random()
        seen = []
        for numerics in (False, False, True):
            devices = sim.configure(k, gpu=gpu, link=link, numerics=numerics)
            moments = Random(program)
            tensors = stream_programs.run(moments, devices, length)
            sim.synchronize()
            seen.append((sim.now(), sim.trace(), [sim.max_memory_allocated(d) for d in devices]))
            check_trace(sim.trace(), sim.GPUS[gpu], sim.LINKS[link], sim.now())
            del tensors
            assert not any(sim.memory_allocated(d) for d in devices)
        assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed):
    check_programs(seed, count=5, length=40)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_random_programs(seed):
    check_programs(seed, count=20, length=100)

"""Complete programs: the numbers are those of processes that communicate by gloo."""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from support.programs import rank_programs

import simgpu as sim

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed.nn.functional")


def run(program):
    def on_rank(rank):
        dist.init_process_group()
        return program(rank, "sim")

    return sim.spawn(on_rank, nprocs=rank_programs.K, gpu="a100", link="nvlink3")


@pytest.mark.parametrize("name", ["ring_attention", "experts", "sharded_loss"])
def test_programs_that_check_their_own_results(name):
    assert len(run(getattr(rank_programs, name))) == rank_programs.K


@pytest.fixture(scope="module")
def by_processes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gloo")
    mp.start_processes(
        rank_programs.run_in_process, (str(folder),), rank_programs.K, start_method="spawn"
    )
    return [torch.load(folder / f"out{rank}.pt") for rank in range(rank_programs.K)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("program", rank_programs.PROGRAMS, ids=lambda program: program.__name__)
def test_ranks_have_the_numbers_of_processes(program, by_processes):
    expected = [out[program.__name__] for out in by_processes]
    assert rank_programs.same(run(program), expected)

"""What NCCL or PyTorch refuses is refused here, and settings of loggers do not leak."""

import logging
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

import simgpu as sim
from simgpu.ranks.communication.order import crossing


def run(use):
    def program(rank):
        dist.init_process_group()
        return use(rank)

    return sim.spawn(program, nprocs=2)


@pytest.mark.parametrize("is_default", [True, False])
def test_a_destroyed_group(is_default):
    def use(rank):
        group = dist.group.WORLD if is_default else dist.new_group([0, 1])
        dist.barrier()
        dist.destroy_process_group(group)
        group.allreduce([torch.ones(2, device="sim")], dist.AllreduceOptions())

    with pytest.raises(sim.RanksError, match=r"in a group that it has destroyed"):
        run(use)


def test_a_barrier_on_a_gpu_that_is_not_the_rank_s():
    with pytest.raises(sim.RanksError, match=r"barrier\(device_ids=\[7\]\)"):
        run(lambda rank: dist.barrier(device_ids=[7]))
    run(lambda rank: dist.barrier(device_ids=[rank]))


def test_a_group_of_nobody():
    with pytest.raises(ValueError, match=r"new_group\(\[\]\) has no members"):
        run(lambda rank: dist.new_group([]))


def test_coalesced_reductions_of_one_tensor():
    def use(rank):
        x = torch.ones(4, device="sim")
        with dist._coalescing_manager():
            dist.all_reduce(x)
            dist.all_reduce(x)

    with pytest.raises(sim.RanksError, match="memory"):
        run(use)


def test_levels_of_loggers_before_and_after_a_wait():
    def use(rank):
        child, parent = logging.getLogger("ranks.child"), logging.getLogger("ranks")
        parent.setLevel([logging.DEBUG, logging.ERROR][rank])
        before = child.isEnabledFor(logging.INFO)
        dist.barrier()
        return before, child.isEnabledFor(logging.INFO)

    assert run(use) == [(True, True), (False, False)]


def test_a_rank_does_not_wait_for_itself():
    part = SimpleNamespace(rank=0, device="sim:0")
    message = SimpleNamespace(is_message=True, participants={0: part}, missing=lambda: [0])
    assert crossing.hints([message], [], None, []) == []

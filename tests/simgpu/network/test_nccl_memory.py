"""What NCCL and CUDA take besides: which groups and partners a rank has connected to."""

import torch
import torch.distributed as dist

from simgpu import spawn
from simgpu.clock.current import find_device
from simgpu.network.cluster import find_cluster
from simgpu.network.nccl_memory import CONTEXT, GROUP, PARTNER, Connections

GPU = torch.accelerator.current_accelerator


def connections(program, nprocs=4, **options):
    def run(rank):
        program(rank)
        return find_device().connections

    return spawn(run, nprocs=nprocs, **options)


def communicate(rank):
    dist.init_process_group()
    x = torch.ones(4, device=GPU())
    group = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]
    for _ in range(3):
        dist.all_reduce(x)
        dist.all_reduce(x, group=group)
    dist.all_reduce(x, group=[dist.new_group([one]) for one in range(4)][rank])
    dist.all_reduce(torch.ones(4))  # gloo's, on the host
    if rank < 2:
        dist.batch_isend_irecv([
            dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, x.clone(), 1 - rank)
        ])[0].wait()  # fmt: skip


def test_groups_and_partners_are_counted_once_and_hosts_not_at_all():
    found = connections(communicate)
    assert [len(one.groups) for one in found] == [2, 2, 2, 2]
    assert [one.partners for one in found] == [{1}, {0}, set(), set()]
    assert found[0].num_bytes() == tuple(
        CONTEXT[i] + 2 * GROUP[i] + PARTNER[i] for i in (0, 1)
    )  # fmt: skip


def exchange(rank):
    dist.init_process_group()
    x = torch.ones(4, device=GPU())
    dist.all_to_all_single(torch.empty_like(x), x)


def test_an_all_to_all_connects_to_all_others_of_the_node_only():
    found = connections(exchange, nodes=2, network="hdr")
    assert [one.partners for one in found] == [{1}, {0}, {3}, {2}]
    assert not any(one.groups for one in found)


def test_a_rank_that_sends_nothing_has_the_context_alone():
    assert Connections(0, find_cluster("dgx-a100")).num_bytes() == CONTEXT

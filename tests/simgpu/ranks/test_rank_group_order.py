"""Two groups at once: all ranks start their collectives in one order, or may hang on NCCL."""

import pytest
import torch
import torch.distributed as dist

import simgpu as sim


def failing(program, k=2):
    """Run a program that fails; return the message."""

    def with_group(rank):
        dist.init_process_group()
        return program(rank, torch.accelerator.current_accelerator())

    with pytest.raises(sim.RanksError) as caught:
        sim.spawn(with_group, nprocs=k, gpu="a100", link="nvlink3")
    return str(caught.value)


def use_two_groups(order_of, rank, device, members=((0, 1), (0, 1))):
    """Start collectives of two groups in the order of this rank; wait for both."""
    groups = [dist.new_group(list(ranks)) for ranks in members]
    tensors = [torch.ones(4, device=device) for _ in groups]
    works = [
        dist.all_reduce(tensors[i], group=groups[i], async_op=True)
        for i in order_of[rank]
        if rank in members[i]
    ]
    for work in works:
        work.wait()
    return [tensor[0].item() for tensor in tensors]


@pytest.mark.parametrize("orders", [((0, 1), (1, 0)), ((1, 0), (0, 1))])
def test_two_groups_at_once_in_opposite_orders(orders):
    text = failing(lambda rank, device: use_two_groups(orders, rank, device))
    assert "may hang on NCCL unless all ranks call them in the same order" in text
    assert "calls all_reduce of 4 float32, sum (test_rank_group_order.py:" in text


def test_two_groups_at_once_in_opposite_orders_with_a_wait_on_one_rank():
    """Rank 1 starts the second group's first, and waits for nothing in between."""

    def program(rank, device):
        first, second = dist.new_group([0, 1]), dist.new_group([0, 1])
        x, y = torch.ones(4, device=device), torch.ones(4, device=device)
        if rank == 0:
            dist.all_reduce(x, group=first)
            dist.all_reduce(y, group=second)
        else:
            works = [
                dist.all_reduce(y, group=second, async_op=True),
                dist.all_reduce(x, group=first, async_op=True),
            ]
            for work in works:
                work.wait()

    assert "may hang" in failing(program)


def test_two_groups_at_once_in_opposite_orders_with_waits_deadlock():
    def program(rank, device):
        groups = dist.new_group([0, 1]), dist.new_group([0, 1])
        for group in groups if rank else reversed(groups):
            dist.all_reduce(torch.ones(4, device=device), group=group)

    assert "deadlock" in failing(program)


@pytest.mark.parametrize(
    ("orders", "members"),
    [
        (((0, 1), (0, 1), (0, 1)), ((0, 1, 2), (0, 1, 2))),
        (((1, 0), (1, 0), (1, 0)), ((0, 1, 2), (0, 1))),
        (((0, 1), (1, 0), (0, 1)), ((0, 1), (1, 2))),  # only one rank is in both
    ],
)
def test_two_groups_at_once_in_one_order(orders, members):
    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        return use_two_groups(orders, rank, device, members=members)

    expected = [[len(m) if rank in m else 1 for m in members] for rank in range(3)]
    assert sim.spawn(program, nprocs=3, gpu="a100", link="nvlink3") == expected


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_which_rank_comes_first_does_not_matter(order):
    """The scheduler takes ranks in turn; a rank that starts with others changes who is first."""

    def program(rank, device):
        groups = [dist.new_group([0, 1, 2]) for _ in range(2)]
        for _ in range(order[rank]):
            dist.distributed_c10d._get_default_store().check(["never"])  # others go first
        own = groups if rank != 1 else groups[::-1]
        works = [
            dist.all_reduce(torch.ones(4, device=device), group=group, async_op=True)
            for group in own
        ]
        for work in works:
            work.wait()

    assert "may hang" in failing(program, 3)


def make_alone(bound, everyone=False, **options):
    """Make a group by its members alone, and use it."""

    def program(rank):
        device = torch.device("sim", rank)
        dist.init_process_group(**({"device_id": device} if bound else {}))
        if rank == 2 and not everyone:
            return None
        group = dist.new_group([0, 1], **options)
        x = torch.ones(1, device=device)
        if rank < 2:
            dist.all_reduce(x, group=group)
        return x.item()

    return sim.spawn(program, nprocs=3, gpu="a100", link="nvlink3")


def test_a_group_that_its_members_alone_make():
    """NCCL splits the communicator of all ranks, if that has been made, and then needs all."""
    assert make_alone(bound=False) == [2.0, 2.0, None]
    assert make_alone(bound=True, use_local_synchronization=True) == [2.0, 2.0, None]
    assert make_alone(bound=True, everyone=True) == [2.0, 2.0, 1.0]
    with pytest.raises(sim.RanksError) as caught:
        make_alone(bound=True)
    text = str(caught.value)
    assert "rank 0 waits in new_group([0, 1]) (test_rank_group_order.py:" in text
    assert "for rank 2: with device_id=, all ranks must make all groups" in text
    assert "use_local_synchronization=True" in text

"""What runs on real GPUs with another effect than it seems is named, and changes no value."""

import warnings

import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Shard, init_device_mesh
from torch.nn.parallel import DistributedDataParallel

import simgpu as sim


def run(use):
    """Return the results of two ranks, and what they were warned of."""

    def program(rank):
        dist.init_process_group()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = use(rank)
        return result, [str(w.message) for w in caught if "on rank" in str(w.message)]

    return zip(*sim.spawn(program, nprocs=2), strict=True)


@pytest.mark.parametrize("inside", ["backward", "both", "nothing"])
def test_no_sync_around_the_backward_pass_alone(inside):
    def use(rank):
        model = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False).to("sim"))
        x = torch.full((1, 1), float(rank + 1), device="sim")
        if inside == "both":
            with model.no_sync():
                model(x).sum().backward()
        else:
            loss = model(x).sum()
            with model.no_sync():
                if inside == "backward":
                    loss.backward()
        grad = model.module.weight.grad
        return None if grad is None else grad.item()

    grads, found = run(use)
    assert grads == {"backward": (1.5, 1.5), "both": (1.0, 2.0), "nothing": (None, None)}[inside]
    assert [len(texts) for texts in found] == [inside == "backward"] * 2
    for rank, (text,) in enumerate(found) if inside == "backward" else ():
        assert f"on rank {rank}: no_sync() (test_silent_mistakes.py:" in text
        assert "put the forward pass inside as well" in text


def test_local_tensors_that_do_not_fit():
    """Of five columns, each rank has three or two."""

    def use(rank, swapped):
        local = torch.ones(2, 2 + (rank == swapped), device="sim")
        mesh = init_device_mesh("sim", (2,))
        tensor = DTensor.from_local(local, mesh, [Shard(1)], shape=(2, 5), stride=(5, 1))
        return tuple(tensor.to_local().shape)

    shapes, found = run(lambda rank: use(rank, swapped=0))
    assert shapes == ((2, 3), (2, 2))
    assert list(found) == [[], []]
    shapes, found = run(lambda rank: use(rank, swapped=1))
    assert shapes == ((2, 2), (2, 3))
    assert "gets a local tensor of (2, 2)" in found[0][0]
    assert "the rank has (2, 3)" in found[0][0]
    assert "gets a local tensor of (2, 3)" in found[1][0]

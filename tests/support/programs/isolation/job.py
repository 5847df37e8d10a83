"""What a job of four ranks finds in its modules: run by torchrun, simgpu run and simgpu.spawn."""

import json
import os
import sys

import group_manager
import keeps_state
import layers
import parallel_groups
import torch
import torch.distributed as dist


def program(device):
    """Return what the rank finds after all ranks have kept their state."""
    rank = dist.get_rank()
    keeps_state.set_state(rank)
    parallel_groups.initialize(2)
    group_manager.setup(2)
    model = [layers.Layer() for _ in range(1 + rank)]
    dist.barrier()
    x = torch.full((2,), 1.0 + parallel_groups.data_rank(), device=device)
    dist.all_reduce(x, group=parallel_groups.tensor_group())
    y = model[0](x)
    dist.all_reduce(y, group=parallel_groups.data_group())
    dist.barrier()
    out = [None] * dist.get_world_size()
    dist.all_gather_object(out, group_manager.manager)
    assert all(type(other) is group_manager.GroupManager for other in out)
    return {
        **keeps_state.get_state(),
        "groups": y.tolist(),
        "manager": [group_manager.manager.is_last, layers.Layer.made],
        "gathered": [other.row for other in out],
    }


if __name__ == "__main__":
    accelerator = torch.accelerator.current_accelerator()
    dist.init_process_group()
    found = program("cpu" if accelerator is None else accelerator)
    with open(f"{sys.argv[1]}.{os.environ['RANK']}", "w") as file:
        json.dump(found, file)
    dist.destroy_process_group()

"""IBM's pretraining of Llama 2 7B, sharded in each node and copied across nodes.

IBM uses the first FSDP, and this is FSDP2. Gradients are summed in 16 bits. ``--compile`` compiles
the model, and not the loss.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from benchmarks.compiled.programs.llama import LLAMA2_7B, Llama, Matrices
from benchmarks.compiled.programs.starting import is_compiled, one_of_many
from benchmarks.compiled.programs.timing import report

BATCH, SEQ, NODE = 2, 4096, 8


def build(device):
    """Return the model, sharded."""
    mesh = init_device_mesh("cuda", (dist.get_world_size() // NODE, NODE),
                            mesh_dim_names=("copies", "shards"))  # fmt: skip
    with device:
        model = Llama(LLAMA2_7B, SEQ, Matrices)
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def make_step(device, compiled):
    """Return a function that does a step of training."""
    model = build(device)
    if compiled:
        model.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    tokens, targets = torch.randint(0, 32_000, (2, BATCH, SEQ), device=device).unbind(0)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        optimizer.step()
        loss.item()

    return step


def main():
    """Time a step."""
    with one_of_many() as device:
        report(make_step(device, is_compiled()))


if __name__ == "__main__":
    main()

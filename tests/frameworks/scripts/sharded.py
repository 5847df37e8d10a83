"""FSDP1; FSDP2, tensor and sequence parallelism, and both at once on a two-dimensional mesh."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)


class Block(nn.Module):
    """A norm and a feed-forward layer with a residual connection."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    """Blocks between an embedding and a linear layer."""

    def __init__(self, vocabulary=64, width=32, depth=2):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def split_tensors(model, mesh, sequence):
    """Split the feed-forward layers; with `sequence`, the norms along the tokens too."""
    for block in model.blocks:
        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        if sequence:
            plan = {
                "norm": SequenceParallel(),
                "up": ColwiseParallel(input_layouts=Shard(1)),
                "down": RowwiseParallel(output_layouts=Shard(1)),
            }
        parallelize_module(block, mesh, plan)
    outer = {
        "embedding": RowwiseParallel(
            input_layouts=Replicate(), output_layouts=Shard(1) if sequence else Replicate()
        ),
        "head": ColwiseParallel(
            input_layouts=Shard(1) if sequence else Replicate(), output_layouts=Replicate()
        ),
    }
    parallelize_module(model, mesh, outer)


def shard_parameters(model, mesh, mixed_precision):
    """Shard the parameters of each block, and the rest."""
    options = {"mesh": mesh}
    if mixed_precision:
        options["mp_policy"] = MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, **options)
    fully_shard(model, **options)


def clip(model):
    """Clip the gradients; return their norm over all ranks."""
    if isinstance(model, FullyShardedDataParallel):
        return model.clip_grad_norm_(1.0).item()
    return nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor().item()


def main(fsdp, tp, sequence, mixed_precision, flat):
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    mesh = init_device_mesh(kind, (fsdp, tp), mesh_dim_names=("fsdp", "tp"))
    torch.manual_seed(0)
    model = Model().to(kind)
    if tp > 1:
        split_tensors(model, mesh["tp"], sequence)
    if flat:
        device = torch.device(kind, int(os.environ["LOCAL_RANK"]) if kind == "cuda" else None)
        policy = ModuleWrapPolicy({Block})
        model = FullyShardedDataParallel(model, auto_wrap_policy=policy, device_id=device)
    elif fsdp > 1:
        shard_parameters(model, mesh["fsdp"], mixed_precision)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=False)
    tokens = torch.randint(64, (8, 16)).chunk(fsdp)[mesh["fsdp"].get_local_rank()].to(kind)
    for step in range(4):
        logits = model(tokens)[:, :-1]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = f" norm {clip(model)!r}" if tp == 1 else ""
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.SUM)
        if dist.get_rank() == 0:
            print(f"step {step} loss {mean.item() / dist.get_world_size()!r}{norm}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fsdp", type=int, default=1)
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--sequence", action="store_true")
    parser.add_argument("--mixed-precision", action="store_true")
    parser.add_argument("--flat", action="store_true", help="FSDP1")
    main(**vars(parser.parse_args()))

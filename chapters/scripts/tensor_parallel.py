"""Train a small transformer whose layers are split, on made-up words.

Two processes, on the GPUs that there are, else on the CPU:

    torchrun --standalone --nproc-per-node 2 tensor_parallel.py

Four, two for each layer; FSDP2 shards what they hold over the other two:

    torchrun --standalone --nproc-per-node 4 tensor_parallel.py --tp 2

Simulated GPUs:

    simgpu run --nproc-per-node 4 tensor_parallel.py --tp 2
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--words", type=int, default=64, help="of the vocabulary")
parser.add_argument("--hidden", type=int, default=32)
parser.add_argument(
    "--tp", type=int, help="ranks that share a layer (default: all)"
)
parser.add_argument(
    "--sequence", action="store_true", help="norms see a part of the tokens"
)
parser.add_argument(
    "--count", action="store_true", help="collectives of the first step"
)
parser.add_argument("--save", help="file for the trained weights")
parser.add_argument("--cpu", action="store_true", help="use no GPU")
args = parser.parse_args()


class Attention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.size = hidden // heads
        self.qkv = nn.Linear(hidden, 3 * hidden)  # for each head: q, k, v
        self.out = nn.Linear(hidden, hidden)

    def forward(self, x):  # (tokens, batch, hidden)
        q, k, v = (
            self.qkv(x).unflatten(-1, (-1, 3, self.size)).permute(3, 1, 2, 0, 4)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.permute(2, 0, 1, 3).flatten(2))


class Language(nn.Module):
    def __init__(self, words, hidden, heads=4):
        super().__init__()
        self.embed = nn.Embedding(words, hidden)
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(3))
        self.attention = Attention(hidden, heads)
        self.up, self.down = (
            nn.Linear(hidden, 4 * hidden),
            nn.Linear(4 * hidden, hidden),
        )
        self.head = nn.Linear(hidden, words, bias=False)

    def forward(self, words):
        x = self.embed(words)
        x = x + self.attention(self.norms[0](x))
        x = x + self.down(functional.gelu(self.up(self.norms[1](x))))
        return self.head(self.norms[2](x))


def plan():
    """Return how each layer is split, and what lies between the layers."""
    between = Shard(0) if args.sequence else Replicate()
    columns, rows = (
        ColwiseParallel(input_layouts=between),
        RowwiseParallel(output_layouts=between),
    )
    logits = {"output_layouts": Shard(-1), "use_local_output": False}
    norms = SequenceParallel(sequence_dim=0)
    return {
        "embed": RowwiseParallel(
            input_layouts=Replicate(), output_layouts=between
        ),
        **{f"norms.{i}": norms for i in range(3) if args.sequence},
        "attention.qkv": columns,
        "attention.out": rows,
        "up": columns,
        "down": rows,
        "head": ColwiseParallel(input_layouts=between, **logits),
    }


device = torch.device("cpu")
if torch.accelerator.is_available() and not args.cpu:
    torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    device = torch.accelerator.current_accelerator()
dist.init_process_group("gloo" if args.cpu else None)
rank, world_size = dist.get_rank(), dist.get_world_size()
tp = args.tp or world_size
mesh = init_device_mesh(
    device.type, (world_size // tp, tp), mesh_dim_names=("dp", "tp")
)

torch.manual_seed(0)  # the same weights and the same texts on every rank
model = Language(args.words, args.hidden).to(device)
model = parallelize_module(model, mesh["tp"], plan())
if tp < world_size:
    fully_shard(model, mesh=mesh["dp"])
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, foreach=False)
texts = torch.randint(args.words, (9, 8))  # a column is a text
own = texts.chunk(world_size // tp, 1)[mesh["dp"].get_local_rank()].to(device)


def step():
    with loss_parallel():
        logits = model(own[:-1]).flatten(0, 1)
        loss = functional.cross_entropy(logits, own[1:].flatten())
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.full_tensor().detach()


def say(line):
    if rank == 0:
        print(line)


if args.count:
    with CommDebugMode() as counted:
        step()
    for name, count in counted.get_comm_counts().items():
        say(f"{str(name).split('.')[-1]}: {count}")
else:
    for number in range(args.steps):
        loss = step() / world_size
        dist.all_reduce(loss)  # the mean over all ranks
        say(f"step {number}: loss {loss.item():.6f}")
if args.save:
    how = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = get_model_state_dict(model, options=how)
    if rank == 0:
        torch.save(state, args.save)
dist.destroy_process_group()

"""A trainer with tensor, pipeline and data parallelism of its own, each written by hand.

Column- and row-parallel layers as autograd functions, a 1F1B schedule of messages, buckets of
gradients that are reduced once a step. The places of ranks are variables of ``process_groups``.
"""

import argparse
import os

import process_groups as grid
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

WIDTH, LAYERS, VOCABULARY, LENGTH, MICRO_BATCHES = 32, 4, 48, 12, 4


class CopyToRegion(torch.autograd.Function):
    """The input of a column-parallel layer: the gradient is summed."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad, group=grid.tp_group)
        return grad


class SumOfRegion(torch.autograd.Function):
    """The output of a row-parallel layer: the parts are summed."""

    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        dist.all_reduce(x, group=grid.tp_group)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


def split(whole, dim):
    """Return a parameter that has this rank's part of a tensor."""
    return nn.Parameter(whole.chunk(grid.tp_size, dim)[grid.tp_rank].clone())


class Layer(nn.Module):
    """Attention and a feed-forward layer, split by tensor parallelism."""

    def __init__(self, generator, heads=4):
        super().__init__()

        def draw(*shape):
            return torch.randn(shape, generator=generator) * 0.1

        self.heads = heads // grid.tp_size
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.query, self.key = split(draw(WIDTH, WIDTH), 0), split(draw(WIDTH, WIDTH), 0)
        self.value, self.out = split(draw(WIDTH, WIDTH), 0), split(draw(WIDTH, WIDTH), 1)
        self.up, self.down = split(draw(4 * WIDTH, WIDTH), 0), split(draw(WIDTH, 4 * WIDTH), 1)

    def forward(self, x):
        h = CopyToRegion.apply(self.norms[0](x))
        q, k, v = (
            F.linear(h, weight).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for weight in (self.query, self.key, self.value)
        )
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + SumOfRegion.apply(F.linear(h, self.out))
        h = CopyToRegion.apply(self.norms[1](x))
        return x + SumOfRegion.apply(F.linear(F.silu(F.linear(h, self.up)), self.down))


class Stage(nn.Module):
    """The layers of one pipeline stage, the embedding before the first, the head after the last."""

    def __init__(self):
        super().__init__()
        generators = [torch.Generator().manual_seed(i) for i in range(LAYERS + 2)]
        first = grid.pp_rank * LAYERS // grid.pp_size
        last = (grid.pp_rank + 1) * LAYERS // grid.pp_size
        self.layers = nn.ModuleList(Layer(generators[i]) for i in range(first, last))
        self.embedding = self.head = None
        if grid.pp_rank == 0:
            weight = torch.randn(VOCABULARY, WIDTH, generator=generators[-1])
            self.embedding = nn.Embedding.from_pretrained(weight, freeze=False)
        if grid.pp_rank == grid.pp_size - 1:
            self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
            nn.init.normal_(self.head.weight, std=0.1, generator=generators[-2])

    def forward(self, x):
        x = self.embedding(x) if self.embedding is not None else x
        for layer in self.layers:
            x = layer(x)
        return self.head(x) if self.head is not None else x


def exchange(sent, to, received_from, shape, device):
    """Send a tensor to the stage `to` away and receive one, at once; where there is a stage."""
    target, source = grid.neighbour(to), grid.neighbour(received_from)
    operations, x = [], None
    if sent is not None and target is not None:
        operations.append(dist.P2POp(dist.isend, sent.contiguous(), target))
    if shape is not None and source is not None:
        x = torch.empty(shape, device=device)
        operations.append(dist.P2POp(dist.irecv, x, source))
    for work in dist.batch_isend_irecv(operations) if operations else ():
        work.wait()
    if operations and device.type == "cuda":
        torch.cuda.synchronize()
    return x


def train_step(stage, batches, device):
    """Run the passes of all micro-batches as one forward, one backward; return the mean loss."""
    shape, pending, losses = (len(batches[0]), LENGTH, WIDTH), [], []

    def forward(x, tokens):
        if x is not None:
            x.requires_grad_()
        y = stage(tokens[:, :-1] if x is None else x)
        if stage.head is not None:
            y = F.cross_entropy(y.flatten(0, 1), tokens[:, 1:].flatten()) / len(batches)
            losses.append(y.detach())
        pending.append((x, y))
        return y.detach()

    def backward(grad):
        x, y = pending.pop(0)
        y.backward(grad)
        return None if x is None else x.grad

    warm_up = min(grid.pp_size - 1 - grid.pp_rank, len(batches))
    for tokens in batches[:warm_up]:
        y = forward(exchange(None, 0, -1, shape, device), tokens)
        exchange(y, +1, 0, None, device)
    x = exchange(None, 0, -1, shape, device)
    for i, tokens in enumerate(batches[warm_up:], warm_up):
        y = forward(x, tokens)
        grad = backward(exchange(y, +1, +1, shape, device))
        x = exchange(grad, -1, -1, shape if i + 1 < len(batches) else None, device)
    while pending:
        grad = backward(exchange(None, 0, +1, shape, device))
        exchange(grad, -1, 0, None, device)
    return torch.stack(losses).sum() if losses else None


def reduce_gradients(stage):
    """Average the gradients over the replicas, as one bucket; sum nothing else."""
    bucket = torch.cat([p.grad.flatten() for p in stage.parameters()])
    bucket /= grid.dp_size
    dist.all_reduce(bucket, group=grid.dp_group)
    for part, p in zip(
        bucket.split([p.numel() for p in stage.parameters()]), stage.parameters(), strict=True
    ):
        p.grad = part.view_as(p)


def main(tp, pp, dp, steps):
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    dist.init_process_group(backend)
    grid.build(tp, pp, dp)
    stage = Stage().to(device)
    optimizer = torch.optim.AdamW(stage.parameters(), lr=1e-2, foreach=True)
    generator = torch.Generator().manual_seed(0)  # all stages see the same tokens
    shape = dp, MICRO_BATCHES, 2, LENGTH + 1
    tokens = torch.randint(VOCABULARY, shape, generator=generator)[grid.dp_rank].to(device)
    for step in range(steps):
        optimizer.zero_grad()
        loss = train_step(stage, list(tokens), device)
        reduce_gradients(stage)
        optimizer.step()
        if stage.head is not None:
            dist.all_reduce(loss, group=grid.dp_group)
            if grid.tp_rank == grid.dp_rank == 0:
                print(f"step {step} loss {loss.item() / dp!r}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("tp", "pp", "dp"):
        parser.add_argument(f"--{name}", type=int, default=1)
    parser.add_argument("--steps", type=int, default=4)
    main(**vars(parser.parse_args()))

"""Train a Llama with tensor and sequence parallelism, as in Megatron, in functions of our own.

torchrun --nproc-per-node 8 tensor.py
"""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from llama import rotate, rotations
from masters import BufferedAdamW
from torch import nn

HIDDEN, HEADS, KV_HEADS, INNER, LAYERS, VOCABULARY = 2048, 16, 8, 7168, 8, 32_000
BATCH, SEQ = 8, 2048


def all_gather(x):
    """Start to join the parts of the sequence, the first dimension."""
    out = x.new_empty(dist.get_world_size() * x.shape[0], *x.shape[1:])
    return out, dist.all_gather_into_tensor(out, x.contiguous(), async_op=True)


def reduce_scatter(x):
    """Start to sum over the ranks, each of which gets a part of the sequence."""
    out = x.new_empty(x.shape[0] // dist.get_world_size(), *x.shape[1:])
    return out, dist.reduce_scatter_tensor(out, x.contiguous(), async_op=True)


class Columns(torch.autograd.Function):
    """Gather the sequence and multiply; backward the input is gathered again."""

    @staticmethod
    def forward(ctx, x, weight):
        """Gather, then multiply."""
        ctx.save_for_backward(x, weight)
        whole, work = all_gather(x)
        work.wait()
        return whole @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        """Sum the input's gradient while that of the weight is computed."""
        x, weight = ctx.saved_tensors
        whole, gathered = all_gather(x)
        of_whole = grad @ weight
        gathered.wait()
        of_x, scattered = reduce_scatter(of_whole)
        of_weight = grad.flatten(0, 1).t() @ whole.flatten(0, 1)
        scattered.wait()
        return of_x, of_weight


class Scatter(torch.autograd.Function):
    """Sum over the ranks, and keep a part of the sequence; backward gather."""

    @staticmethod
    def forward(ctx, x):
        """Reduce-scatter."""
        out, work = reduce_scatter(x)
        work.wait()
        return out

    @staticmethod
    def backward(ctx, grad):
        """All-gather."""
        out, work = all_gather(grad)
        work.wait()
        return out


class CrossEntropy(torch.autograd.Function):
    """The loss of logits whose columns are split over the ranks."""

    @staticmethod
    def forward(ctx, logits, targets):
        """Return the mean; keep the probabilities in place of the logits."""
        x = logits.float()
        top = x.amax(-1)
        dist.all_reduce(top, dist.ReduceOp.MAX)
        x.sub_(top.unsqueeze(-1))
        begin = dist.get_rank() * x.shape[-1]
        outside = (targets < begin) | (targets >= begin + x.shape[-1])
        own = (targets - begin).masked_fill(outside, 0)
        hit = x.gather(-1, own.unsqueeze(-1)).squeeze(-1).masked_fill(outside, 0.0)
        dist.all_reduce(hit)
        total = x.exp_().sum(-1)
        dist.all_reduce(total)
        ctx.save_for_backward(x.div_(total.unsqueeze(-1)), own, outside)
        return (total.log() - hit).mean()

    @staticmethod
    def backward(ctx, grad):
        """Probabilities less one at the target."""
        x, own, outside = ctx.saved_tensors
        x.scatter_add_(-1, own.unsqueeze(-1), outside.to(x.dtype).unsqueeze(-1) - 1)
        return x.mul_(grad / len(x)).bfloat16(), None


class Block(nn.Module):
    """A rank's heads, and its columns of the feed-forward part; x is (sequence, batch, hidden)."""

    def __init__(self, ranks):
        super().__init__()
        self.head, self.heads, self.keys = HIDDEN // HEADS, HEADS // ranks, KV_HEADS // ranks
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        width = (self.heads + 2 * self.keys) * self.head
        self.qkv = nn.Parameter(torch.empty(width, HIDDEN))
        self.out = nn.Linear(self.heads * self.head, HIDDEN, bias=False)
        self.up = nn.Parameter(torch.empty(2 * INNER // ranks, HIDDEN))
        self.down = nn.Linear(INNER // ranks, HIDDEN, bias=False)

    def forward(self, x, rotations):
        """Add what both parts make of x."""
        x = x + Scatter.apply(
            self.out(self.attend(Columns.apply(self.norm1(x), self.qkv), rotations))
        )
        gate, y = Columns.apply(self.norm2(x), self.up).chunk(2, -1)
        return x + Scatter.apply(self.down(F.silu(gate) * y))

    def attend(self, y, rotations):
        """Attend with this rank's heads."""
        seq, batch, _ = y.shape
        q, k, v = (
            y.view(seq, batch, -1, self.head)
            .transpose(0, 1)
            .split([self.heads, self.keys, self.keys], 2)
        )
        q, k, v = (t.transpose(1, 2) for t in (rotate(q, rotations), rotate(k, rotations), v))
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return z.permute(2, 0, 1, 3).reshape(seq, batch, -1)


class Model(nn.Module):
    """A rank's rows of the embedding, its blocks, its rows of the output layer."""

    def __init__(self, ranks):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY // ranks, HIDDEN)
        self.blocks = nn.ModuleList(Block(ranks) for _ in range(LAYERS))
        self.norm = nn.RMSNorm(HIDDEN)
        self.output = nn.Parameter(torch.empty(VOCABULARY // ranks, HIDDEN))

    def forward(self, tokens, rotations):
        """Return the loss; tokens are (batch, sequence)."""
        begin = dist.get_rank() * self.tokens.num_embeddings
        tokens = tokens.t()
        outside = (tokens < begin) | (tokens >= begin + self.tokens.num_embeddings)
        x = self.tokens((tokens - begin).masked_fill(outside, 0))
        x = Scatter.apply(x.masked_fill(outside.unsqueeze(-1), 0.0))
        for block in self.blocks:
            x = block(x, rotations)
        logits = Columns.apply(self.norm(x), self.output)
        return CrossEntropy.apply(logits.flatten(0, 1), tokens.flatten())


dist.init_process_group("nccl")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
model = Model(dist.get_world_size()).to(device).bfloat16()
turns = rotations(HIDDEN // HEADS, SEQ).to(device)
optimizer = BufferedAdamW(model.parameters())
for _ in range(3):
    tokens = torch.randint(0, VOCABULARY, (BATCH, SEQ), device=device)
    model(tokens, turns).backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()

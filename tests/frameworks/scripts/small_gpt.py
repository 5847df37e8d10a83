"""One file that trains a small GPT with DDP, as many repositories have it.

Settings are global names that the command line overrides; ``torch.compile``, autocast, a gradient
scaler, the fused AdamW, fused attention, accumulation of gradients, tokens per second and MFU.
"""

import contextlib
import math
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

device = "cuda"
backend = "nccl"
dtype = "bfloat16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "float16"
compile = True
num_steps = 6
accumulation = 4
batch_size, context = 4, 32
vocabulary, width, depth, heads = 65, 64, 2, 4
learning_rate, clip = 1e-3, 1.0
out = ""
for argument in sys.argv[1:]:
    name, _, text = argument.removeprefix("--").partition("=")
    kind = type(globals()[name])
    globals()[name] = text == "True" if kind is bool else kind(text)


class Attention(nn.Module):
    """Causal attention of several heads."""

    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        shape = (*x.shape[:2], heads, width // heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """Attention and a feed-forward layer, each after a norm."""

    def __init__(self):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention()
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A transformer that shares its embedding with the last layer."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.places(torch.arange(context, device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, vocabulary), targets.view(-1))


ddp = int(os.environ.get("RANK", -1)) != -1
if ddp:
    dist.init_process_group(backend=backend)
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if "cuda" in device:
        device = f"cuda:{int(os.environ['LOCAL_RANK'])}"
        torch.cuda.set_device(device)
    accumulation //= world_size
else:
    rank, world_size = 0, 1
torch.manual_seed(1)
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
on_gpu = "cuda" in device
low = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]
autocast = torch.amp.autocast("cuda", low) if on_gpu else contextlib.nullcontext()

text = torch.arange(4096).mul(7).add(torch.randint(3, (4096,))).remainder(vocabulary)
generator = torch.Generator().manual_seed(rank)


def draw_batch():
    """Draw a batch, as other parts of the text on each rank."""
    starts = torch.randint(len(text) - context - 1, (batch_size,), generator=generator)
    x = torch.stack([text[i : i + context] for i in starts])
    y = torch.stack([text[i + 1 : i + 1 + context] for i in starts])
    if on_gpu:
        return (part.pin_memory().to(device, non_blocking=True) for part in (x, y))
    return x, y


model = GPT().to(device)
scaler = torch.amp.GradScaler("cuda", enabled=on_gpu and dtype == "float16")
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, fused=on_gpu)
if compile:
    model = torch.compile(model)
if ddp:
    ids = [int(os.environ["LOCAL_RANK"])] if on_gpu else None
    model = DistributedDataParallel(model, device_ids=ids)
raw = model.module if ddp else model
num_parameters = sum(p.numel() for p in raw.parameters())
flops_of_a_token = 6 * num_parameters + 12 * depth * width * context

x, y = draw_batch()
begin = time.perf_counter()
for step in range(num_steps):
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * 0.5 * (1 + math.cos(math.pi * step / num_steps))
    for part in range(accumulation):
        if ddp:
            model.require_backward_grad_sync = part == accumulation - 1
        with autocast:
            loss = model(x, y) / accumulation
        x, y = draw_batch()  # while the GPU computes
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    value = loss.item() * accumulation
    now = time.perf_counter()
    seconds, begin = now - begin, now
    tokens = batch_size * context * accumulation
    if rank == 0:
        print(f"step {step} loss {value!r} norm {norm.item()!r}")
        mfu = flops_of_a_token * tokens / seconds / 989e12
        speed = f"{tokens / seconds:.0f} tokens/s a GPU, MFU {100 * mfu:.3f} %"
        print(f"time {seconds * 1e3:.3f} ms, {speed}", flush=True)
if out and rank == 0:
    torch.save({"model": raw.state_dict(), "optimizer": optimizer.state_dict()}, out)
if ddp:
    dist.destroy_process_group()

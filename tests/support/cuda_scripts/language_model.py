"""A small language model, trained as researchers' single-file scripts do.

Settings at the top, ``device = 'cuda'``, a compiled model, accumulated gradients that DDP
synchronises in the last micro-step, mixed precision, and a learning rate by schedule.
"""

import math
import os
from contextlib import nullcontext

import torch
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

backend = "nccl"
device = "cuda"
dtype = os.environ.get("DTYPE", "float32")
compile = True
accumulation, batch, block, vocabulary, width, heads = 4, 4, 16, 40, 32, 4
steps, warmup, top_rate, clip = 4, 2, 1e-2, 1.0

ddp = int(os.environ.get("RANK", -1)) != -1
if ddp:
    init_process_group(backend=backend)
    rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    device = f"cuda:{local_rank}"
    torch.cuda.set_device(device)
    master = rank == 0
    assert accumulation % int(os.environ["WORLD_SIZE"]) == 0
    accumulation //= int(os.environ["WORLD_SIZE"])
else:
    rank, master = 0, True
torch.manual_seed(1337)
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
kind = "cuda" if "cuda" in device else "cpu"
types = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
context = (
    nullcontext()
    if dtype == "float32"
    else torch.amp.autocast(device_type=kind, dtype=types[dtype])
)
scaler = torch.amp.GradScaler(kind, enabled=dtype == "float16")
data = torch.randint(vocabulary, (5000,), generator=torch.Generator().manual_seed(5))
choose = torch.Generator().manual_seed(100 + rank)


def get_batch():
    starts = torch.randint(len(data) - block, (batch,), generator=choose)
    x = torch.stack([data[i : i + block] for i in starts.tolist()])
    y = torch.stack([data[i + 1 : i + 1 + block] for i in starts.tolist()])
    if kind == "cuda":
        return (t.pin_memory().to(device, non_blocking=True) for t in (x, y))
    return x.to(device), y.to(device)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        many, length, _ = x.shape
        q, k, v = (
            part.view(many, length, heads, width // heads).transpose(1, 2)
            for part in self.qkv(self.first(x)).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(many, length, width))
        return x + self.mlp(self.second(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(block, width)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.words.weight = self.head.weight

    def forward(self, tokens, targets):
        places = torch.arange(tokens.shape[1], dtype=torch.long, device=tokens.device)
        x = self.words(tokens) + self.places(places)
        for one in self.blocks:
            x = one(x)
        logits = self.head(x)
        return logits, F.cross_entropy(logits.view(-1, vocabulary), targets.view(-1))


model = Model().to(device)
decayed = [p for p in model.parameters() if p.dim() >= 2]
others = [p for p in model.parameters() if p.dim() < 2]
groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=top_rate, betas=(0.9, 0.95), fused=kind == "cuda")
if compile:
    model = torch.compile(model)
if ddp:
    model = DistributedDataParallel(model, device_ids=[local_rank])
for step in range(steps):
    share = min(1.0, (step + 1) / warmup) * 0.5 * (1 + math.cos(math.pi * step / steps))
    for group in optimizer.param_groups:
        group["lr"] = top_rate * share
    for micro in range(accumulation):
        if ddp:
            model.require_backward_grad_sync = micro == accumulation - 1
        x, y = get_batch()
        with context:
            _, loss = model(x, y)
            loss = loss / accumulation
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    if master:
        print(f"step {step} norm {norm.item():.9g} loss {loss.item() * accumulation:.9g}")
if ddp:
    destroy_process_group()

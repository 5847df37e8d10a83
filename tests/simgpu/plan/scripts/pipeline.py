"""Train a Llama in a pipeline (1F1B): torchrun --nproc-per-node 4 pipeline.py."""

import os

import torch
import torch.distributed as dist
from llama import Llama, loss_of
from masters import BufferedAdamW
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

LAYERS, MICRO_BATCH, COUNT, SEQ = 8, 2, 8, 2048

dist.init_process_group("nccl")
rank, ranks = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
first, last = rank == 0, rank == ranks - 1
model = Llama(layers=LAYERS // ranks, first=first, last=last).to(device)
turns = model.rotations
model.bfloat16().rotations = turns  # complex numbers stay as they were
stage = PipelineStage(model, rank, ranks, device)
schedule = Schedule1F1B(stage, COUNT, loss_fn=loss_of, scale_grads=False)
optimizer = BufferedAdamW(model.parameters())
for _ in range(3):
    tokens = torch.randint(0, 32_000, (COUNT * MICRO_BATCH, SEQ), device=device)
    words = {"target": tokens} if last else {}
    schedule.step(*[tokens] * first, **words, return_outputs=False)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()

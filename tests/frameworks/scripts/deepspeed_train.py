"""DeepSpeed's engine with ZeRO's stages 0 to 3."""

import argparse

import deepspeed
import torch
import torch.distributed as dist
from torch import nn


class Block(nn.Module):
    """A feed-forward layer with a residual connection."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def main(stage, local_rank, dtype):
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 2,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
        "zero_optimization": {"stage": stage, "overlap_comm": stage > 0},
        "bf16": {"enabled": dtype == "bf16"},
        "fp16": {"enabled": dtype == "fp16"},
        "steps_per_print": 1000,
    }
    deepspeed.init_distributed()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), Block(32), Block(32), nn.Linear(32, 8))
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config
    )
    rank, world_size = dist.get_rank(), dist.get_world_size()
    features = torch.randn(6, world_size, 4, 16)[:, rank]
    targets = torch.randint(8, (6, world_size, 4))[:, rank]
    inner = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(dtype, torch.float32)
    for step, (x, y) in enumerate(zip(features, targets, strict=True)):
        outputs = engine(x.to(engine.device, inner))
        loss = nn.functional.cross_entropy(outputs.float(), y.to(engine.device))
        engine.backward(loss)
        engine.step()
        print(f"rank {rank} step {step} loss {loss.item()!r}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--stage", type=int, default=0)
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--local_rank", type=int, default=-1)  # the deepspeed launcher gives it
    main(**vars(parser.parse_args()))

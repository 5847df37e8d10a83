"""Accelerate: a prepared loop that accumulates, clips, gathers and saves; with DDP or FSDP."""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import FullyShardedDataParallelPlugin, set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main(fsdp, mixed_precision):
    plugin = None
    if fsdp:
        plugin = FullyShardedDataParallelPlugin(
            fsdp_version=fsdp, auto_wrap_policy="no_wrap", use_orig_params=fsdp == 1 or None
        )
    accelerator = Accelerator(
        gradient_accumulation_steps=2, mixed_precision=mixed_precision, fsdp_plugin=plugin
    )
    set_seed(0)
    data = TensorDataset(torch.randn(64, 10), torch.randint(4, (64,)))
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 20)
    model, optimizer, loader, scheduler = accelerator.prepare(
        model, optimizer, DataLoader(data, 8), scheduler
    )
    accelerator.print(f"{accelerator.num_processes} processes")
    for epoch in range(3):
        for features, targets in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(features), targets)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        losses = accelerator.gather_for_metrics(loss.detach().reshape(1))
        accelerator.print(f"epoch {epoch} loss {losses.mean().item()!r}")
    accelerator.wait_for_everyone()
    state = accelerator.get_state_dict(model)
    total = sum(value.double().sum().item() for value in state.values())
    accelerator.print(f"parameters {total!r}")
    accelerator.end_training()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fsdp", type=int, help="1 or 2")
    parser.add_argument("--mixed-precision", default="no")
    main(**vars(parser.parse_args()))

"""Checker of the weights that the optimizer changes, when a model is loaded in 16 bits."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy

import simgpu as sim
from d2lmini.checks.shared.solution import checker

WIDTH = 16


class _Layer(nn.Linear):
    """A layer that notes in which type it computes."""

    computed = None

    def forward(self, X):
        out = super().forward(X)
        self.computed = out.dtype
        return out


class _Model(nn.Module):
    """A model of blocks, with parameters outside them."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(_Layer(WIDTH, WIDTH) for _ in range(2))
        self.head = _Layer(WIDTH, 4)

    def forward(self, X):
        for block in self.blocks:
            X = block(X).relu()
        return self.head(X)


@checker("shard_in_float32(model, policy)", may_change=["model"])
def check_shard_in_float32(shard_in_float32):
    """Check a function that shards a model of any type such that its weights are float32.

    The function with the mistake of accelerate#3979 is refused with that name.

    Parameters
    ----------
    shard_in_float32 : callable
        ``shard_in_float32(model, policy)``, called on every rank: the model, in bfloat16, has a
        list ``model.blocks`` and other parameters. Blocks and model are sharded with the
        `MixedPrecisionPolicy`, which says that they compute in bfloat16.

    Raises
    ------
    AssertionError
        If something is not sharded, the weights are others or in 16 bits, or it computes in 32.
    """

    def run(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        model = _model().to(device)
        shard_in_float32(model, MixedPrecisionPolicy(torch.bfloat16, torch.float32))
        sharded = [isinstance(module, FSDPModule) for module in (*model.blocks, model)]
        assert all(sharded), "call fully_shard on every block, and then on the model"
        before = _whole(model)
        types = [p.dtype for p in model.parameters()]
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0)
        model(torch.ones(4, WIDTH, device=device)).float().square().mean().backward()
        optimizer.step()
        moved = [a != b for a, b in zip(before, _whole(model), strict=True)]
        computed = {module.computed for module in (*model.blocks, model.head)}
        return before, types, torch.cat([m.flatten() for m in moved]), computed

    with shard_in_float32.running():
        results = sim.spawn(run, nprocs=2)
    _check_weights(*results[0])
    print("shard_in_float32: passed")


def _model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return _Model().to(torch.bfloat16)


def _whole(model):
    return [p.full_tensor().detach().cpu() for p in model.parameters()]


def _check_weights(before, types, moved, computed):
    loaded = [p.detach() for p in _model().parameters()]
    short = sum(dtype != torch.float32 for dtype in types)
    assert short < len(types), (
        f"all parameters are still {types[0]}, and an update with a learning rate of 1e-5 leaves "
        f"{(~moved).sum()} of {len(moved)} weights as they were. That is accelerate#3979: "
        "`parameter = ...` gives another tensor this name, and the model keeps its own"
    )
    assert not short, f"{short} of {len(types)} parameters are not float32"
    same = [torch.equal(a.to(b.dtype), b) for a, b in zip(before, loaded, strict=True)]
    assert all(same), "the weights are not those that the model was given"
    assert computed == {torch.bfloat16}, (
        "layers compute in float32, at a fraction of the speed: give fully_shard the policy, "
        "for the blocks and for the model"
    )

"""Checker of which modules compute their activations again in the backward pass."""

import torch
from torch import nn

import simgpu as sim
from d2lmini.checks.shared.solution import checker

WIDTH, TOKENS, STAGES, DEPTH = 32, 128, 2, 2
BLOCKS, TENSOR = STAGES * DEPTH, 4 * WIDTH * TOKENS  # a block's input, in bytes


class _Linear(nn.Linear):
    """A layer that counts how often it computes."""

    calls = 0

    def forward(self, X):
        _Linear.calls += 1
        return super().forward(X)


class _Block(nn.Module):
    """A block of two parts, as attention and the MLP of a transformer."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mix, self.mlp = (
            nn.Sequential(_Linear(WIDTH, 4 * WIDTH), nn.GELU(), _Linear(4 * WIDTH, WIDTH))
            for _ in range(2)
        )

    def forward(self, X):
        X = X + self.mix(self.first(X))
        return X + self.mlp(self.second(X))


@checker("recompute_where(model, matches)", may_change=["model"])
def check_recompute_where(recompute_where):
    """Check a function that lets some modules of a model compute their activations again.

    The function with the mistake of accelerate#3897 is refused with that name.

    Parameters
    ----------
    recompute_where : callable
        ``recompute_where(model, matches)``, changing a model such that each module for which
        ``matches(module)`` is true keeps its input alone in the forward pass, and computes again in
        the backward pass.

    Raises
    ------
    AssertionError
        If more is kept, more is computed, or the gradients are others.
    """
    (device,) = sim.configure(1, gpu="a100")
    _, computed, right = _step(_model(device), device)
    model = _model(device)
    recompute_where(model, lambda module: isinstance(module, _Block))
    with recompute_where.running():
        kept, again, gradients = _step(model, device)
    same = [a is not None and torch.allclose(a, b) for a, b in zip(gradients, right, strict=True)]
    assert all(same), "the gradients are others than without recomputing"
    _check_memory(kept / TENSOR / BLOCKS, again == computed)
    assert again <= 2 * computed, (
        f"{again} products are computed in the forward passes of a step instead of "
        f"{2 * computed}: what matches is computed again, but nothing inside it once more"
    )
    print("recompute_where: passed")


def _model(device):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        stages = [nn.Sequential(*(_Block() for _ in range(DEPTH))) for _ in range(STAGES)]
        return nn.Sequential(*stages).to(device)


def _step(model, device):
    """Return the bytes kept for the backward pass, the products computed, and the gradients."""
    X = torch.ones(TOKENS, WIDTH).to(device)
    _Linear.calls, before = 0, sim.memory_allocated(device)
    loss = model(X).square().mean()
    kept = sim.memory_allocated(device) - before
    loss.backward()
    gradients = [None if p.grad is None else p.grad.cpu() for p in model.parameters()]
    return kept, _Linear.calls, gradients


def _check_memory(tensors, never_again):
    """Raise AssertionError unless a block keeps about one tensor of the size of its input."""
    said = f"a block keeps {tensors:.1f} tensors of the size of its input until the backward pass"
    assert not never_again, f"{said}: nothing is computed again"
    assert tensors < 5, f"{said}: what matches is not computed again as a whole"
    assert tensors < 2, (
        f"{said}. That is accelerate#3897: what lies *inside* a module that matches is wrapped, "
        "piece by piece, and the input of each piece is kept. Wrap the module itself"
    )
    assert tensors > 0.9, (
        f"{said}: something larger than a block is computed again in one piece, and in the "
        "backward pass all its activations are there at once"
    )

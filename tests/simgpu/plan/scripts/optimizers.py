"""The optimizers that scripts choose from."""

from functools import partial

import torch
from eight_bits import AdamW8bit
from torch.optim import SGD, Adafactor, Adam, AdamW


class Muon:
    """Muon for matrices of the blocks, AdamW for embedding, output layer and norms."""

    def __init__(self, model):
        inside = [p for p in model.blocks.parameters() if p.ndim == 2]
        known = {*inside}
        others = [p for p in model.parameters() if p not in known]
        self.parts = torch.optim.Muon(inside), AdamW(others, lr=1e-4, fused=True)

    def step(self):
        """Change all parameters."""
        for part in self.parts:
            part.step()

    def zero_grad(self):
        """Forget all gradients."""
        for part in self.parts:
            part.zero_grad()


def make_optimizer(name, model):
    """Return the optimizer of that name."""
    return Muon(model) if name == "muon" else OPTIMIZERS[name](model.parameters())


OPTIMIZERS = {
    "adamw": partial(AdamW, lr=1e-4, fused=True),
    "adam": partial(Adam, lr=1e-4, fused=True),
    "sgd": partial(SGD, lr=1e-2, foreach=True),
    "sgd-momentum": partial(SGD, lr=1e-2, momentum=0.9, foreach=True),
    "adamw-8bit": AdamW8bit,
    "adafactor": Adafactor,
    "muon": Muon,
}

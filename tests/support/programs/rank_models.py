"""A small model, its data, and its training by one process: what ranks must agree with."""

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, OUT, BATCH = 16, 4, 16


class Net(nn.Module):
    """Layers with residuals, so that an error in any of them shows in the result."""

    def __init__(self, layers=3, norm=False):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))
            for _ in range(layers)
        )
        self.norm = nn.BatchNorm1d(WIDTH) if norm else nn.Identity()
        self.head = nn.Linear(WIDTH, OUT)
        self.unused = nn.Linear(1, 1) if norm is None else None

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.head(self.norm(x))


def batches(steps, size=BATCH):
    generator = torch.Generator().manual_seed(7)
    return [
        (torch.randn(size, WIDTH, generator=generator), torch.randn(size, OUT, generator=generator))
        for _ in range(steps)
    ]


def seeded(make=Net, **kwargs):
    torch.manual_seed(0)
    return make(**kwargs)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def train_alone(make=Net, steps=3, optimizer=sgd, clip=None, accumulate=1, **kwargs):
    """Train on the CPU; return the state dict and the norms of the gradients."""
    model = seeded(make, **kwargs)
    optimizer, norms = optimizer(model.parameters()), []
    for i, (x, y) in enumerate(batches(steps)):
        (F.mse_loss(model(x), y) / accumulate).backward()
        if (i + 1) % accumulate == 0:
            if clip is not None:
                norms.append(nn.utils.clip_grad_norm_(model.parameters(), clip).item())
            optimizer.step()
            optimizer.zero_grad()
    return {name: value.detach().clone() for name, value in model.state_dict().items()}, norms


def largest_difference(state, reference):
    assert state.keys() == reference.keys()
    return max((state[name].float() - reference[name].float()).abs().max().item() for name in state)

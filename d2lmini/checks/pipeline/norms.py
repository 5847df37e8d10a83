"""Checker of networks for pipelines, in which examples must not depend on each other."""

import torch
from torch import nn

from d2lmini.checks.shared.solution import checker


class Residual(nn.Module):
    """A block whose batch normalisation is two levels below the network."""

    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()
        )

    def forward(self, x):
        """Add the body's output to the input."""
        return x + self.body(x)


def networks():
    """Yield names, networks with batch normalisation at several depths, numbers of groups."""
    torch.manual_seed(0)
    yield "a flat network", nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), 2
    blocks = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), Residual(6), Residual(6))
    yield "a network of blocks", blocks, 3
    yield "batch normalisation alone", nn.BatchNorm2d(3), 3
    yield "a network without any", nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), 2


@checker("for_pipeline(network, groups)")
def check_for_pipeline(for_pipeline):
    """Check a function that replaces batch normalisation.

    Parameters
    ----------
    for_pipeline : callable
        ``for_pipeline(network, groups)``, returning the network with an `nn.GroupNorm` in place of
        each `nn.BatchNorm2d`.

    Raises
    ------
    AssertionError
        If one is left, another module has changed, or micro-batches change the gradients.
    """
    for where, network, groups in networks():
        before = {
            name: module
            for name, module in network.named_modules()
            if not any(True for _ in module.children())
        }
        got = for_pipeline.at(where)(network, groups)
        assert isinstance(got, nn.Module), (
            f"{where}: for_pipeline returned {type(got).__name__}; return the network"
        )
        _check_modules(where, before, dict(got.named_modules()), groups)
        _check_gradients(where, got)
    print("for_pipeline: passed")


def _check_modules(where, before, after, groups):
    for name, old in before.items():
        new, place = after.get(name), name or "the network itself"
        if not isinstance(old, nn.BatchNorm2d):
            assert new is old, (
                f"{where}: {place}, {old}, has become {new}; leave others as they are"
            )
            continue
        hint = "; look into the children of children, too" if name.count(".") else ""
        assert not isinstance(new, nn.BatchNorm2d), (
            f"{where}: {place} is still batch normalisation, which takes its statistics from one "
            f"micro-batch{hint}"
        )
        assert isinstance(new, nn.GroupNorm), f"{where}: {place} is {new}, not nn.GroupNorm"
        wanted = groups, old.num_features
        assert (new.num_groups, new.num_channels) == wanted, (
            f"{where}: {place} has {new.num_groups} groups and {new.num_channels} channels; "
            f"{wanted[0]} and {wanted[1]} are needed"
        )


def _check_gradients(where, network):
    """Compare the gradients of 4 micro-batches with those of the minibatch."""
    X = torch.randn(8, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    parameters = list(network.parameters())
    network.train()
    whole = torch.autograd.grad((network(X) ** 2).sum(), parameters)
    loss = sum((network(part) ** 2).sum() for part in X.chunk(4))
    parts = torch.autograd.grad(loss, parameters)
    same = all(
        torch.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in zip(whole, parts, strict=True)
    )
    assert same, (
        f"{where}: micro-batches give other gradients than the minibatch; something in the network "
        "still mixes the examples, as batch normalisation does"
    )

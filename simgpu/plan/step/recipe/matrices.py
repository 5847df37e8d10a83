"""Optimizers that look at whole matrices, PyTorch's own: Adafactor and Muon.

Adafactor sums over rows and columns, and Muon multiplies a matrix by itself. A rank that has a part
of a matrix would do something else, or fetch the rest, so plans that split them are refused.
"""

import torch

from simgpu.plan.step.recipe.elementwise import AdamW


class _OfPyTorch:
    """One of PyTorch's optimizers; its states are there from the beginning.

    Parameters
    ----------
    parameters : list of torch.Tensor
        A rank's own part of each.
    """

    def __init__(self, parameters):
        self.parameters = parameters
        self.optimizer = self.kind(parameters)
        for p in parameters:  # one after the other: gradients of all would need much memory
            p.grad = torch.empty_like(p)
            self.optimizer.step()
            p.grad = None

    def step(self, gradients):
        """Change the parameters; those without a gradient (None) stay."""
        for p, gradient in zip(self.parameters, gradients, strict=True):
            p.grad = gradient
        self.optimizer.step()
        for p in self.parameters:
            p.grad = None


class Adafactor(_OfPyTorch):
    """``torch.optim.Adafactor``: a number for each row and column; the host waits twice for each.

    By its default, which is chosen to save memory, one parameter after the other.
    """

    kind = torch.optim.Adafactor


class _Orthogonal(_OfPyTorch):
    kind = torch.optim.Muon


class Muon:
    """``torch.optim.Muon`` for matrices of hidden layers, and one `AdamW` for all other parameters.

    Parameters
    ----------
    parameters
        As for `AdamW`.
    hidden : list of bool
        Whether a parameter is a hidden layer's: embedding and output layer are tables of tokens.
    """

    def __init__(self, parameters, hidden):
        own = [inside and p.ndim == 2 for p, inside in zip(parameters, hidden, strict=True)]
        self.parts = []
        for kind, wanted in ((_Orthogonal, True), (AdamW, False)):
            places = [i for i, one in enumerate(own) if one == wanted]
            if places:
                self.parts.append((kind([parameters[i] for i in places]), places))

    def step(self, gradients):
        """Change the parameters; those without a gradient (None) stay."""
        for optimizer, places in self.parts:
            optimizer.step([gradients[i] for i in places])

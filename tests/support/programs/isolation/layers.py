"""Reads the manager through its module, as a model's file does."""

import group_manager as groups
from torch import nn


class Layer(nn.Module):
    """A layer whose weight depends on the place in the grid."""

    made = 0  # layers

    def __init__(self):
        super().__init__()
        Layer.made += 1
        self.scale = 10 * groups.manager.row + groups.manager.column

    def forward(self, x):
        """Multiply by the number of the place."""
        return x * self.scale

"""The random state of a rank's device: a seed and an offset, as on CUDA.

DTensor reads and sets the two as 16 bytes, so that ranks draw the same or different numbers.
"""

import torch

_MULTIPLIERS = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03  # odd: keep (seed, offset) pairs distinct
STEP = 4  # the least increment of CUDA's offset per operation


class SeedAndOffset:
    """Seeds the generator of every operation from a seed and an offset."""

    def __init__(self, seed):
        self._generator = torch.Generator()
        self.manual_seed(seed)

    def manual_seed(self, seed):
        """Set the seed, and reset the offset."""
        self.seed, self.offset = int(seed) % 2**63, 0
        return self

    def initial_seed(self) -> int:
        """Return the seed."""
        return self.seed

    def draw(self) -> torch.Generator:
        """Return the generator for the next operation."""
        number = self.seed * _MULTIPLIERS[0] + self.offset * _MULTIPLIERS[1]
        self.offset += STEP
        return self._generator.manual_seed(number % 2**63)

    def get_state(self) -> torch.Tensor:
        """Return seed and offset as 16 bytes."""
        return torch.tensor([self.seed, self.offset], dtype=torch.int64).view(torch.uint8)

    def set_state(self, state) -> None:
        """Set seed and offset from 16 bytes."""
        self.seed, self.offset = state.cpu().view(torch.int64).tolist()

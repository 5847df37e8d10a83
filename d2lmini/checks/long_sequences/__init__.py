"""Checkers for the exercises of the chapter on long sequences.

All but the mask of a step run on simulated GPUs. Start reading in ``rings.py``.
"""

from d2lmini.checks.long_sequences.gradients import check_sequence_gradients
from d2lmini.checks.long_sequences.masks import check_mask
from d2lmini.checks.long_sequences.outputs import check_whole_again
from d2lmini.checks.long_sequences.rings import (
    check_grouped_ring,
    check_pass_uneven,
    check_sum_round,
)

__all__ = [
    "check_grouped_ring",
    "check_mask",
    "check_pass_uneven",
    "check_sequence_gradients",
    "check_sum_round",
    "check_whole_again",
]

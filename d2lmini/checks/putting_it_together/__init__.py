"""Checkers for the exercises of the chapter that puts all splits together.

Start reading in ``groups.py``, which needs no device. ``losses.py`` and ``norms.py`` run solutions
on every rank of several meshes (``meshes.py``), on simulated GPUs.
"""

from d2lmini.checks.putting_it_together.groups import check_group_of
from d2lmini.checks.putting_it_together.losses import (
    check_loss_everywhere,
    check_shown_loss,
    check_token_mean,
)
from d2lmini.checks.putting_it_together.norms import check_mesh_norm

__all__ = [
    "check_group_of",
    "check_loss_everywhere",
    "check_mesh_norm",
    "check_shown_loss",
    "check_token_mean",
]

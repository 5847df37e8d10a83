"""Checkers for the exercises of the chapter on tensor parallelism.

Start reading in ``forward.py``; like ``gradients.py`` it runs programs of several ranks on
simulated GPUs and counts what they send. ``layout.py`` and ``resharding.py`` are on what each rank
has, and need no device.
"""

from d2lmini.checks.tensor_parallel.forward import check_gated_mlp, check_smooth_loss
from d2lmini.checks.tensor_parallel.gradients import check_gradient_norm
from d2lmini.checks.tensor_parallel.layout import check_dropout_seed, check_share_kv_heads
from d2lmini.checks.tensor_parallel.resharding import check_reshard

__all__ = [
    "check_dropout_seed",
    "check_gated_mlp",
    "check_gradient_norm",
    "check_reshard",
    "check_share_kv_heads",
    "check_smooth_loss",
]

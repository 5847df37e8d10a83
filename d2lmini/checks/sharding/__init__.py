"""Checkers for the exercises of the chapter on memory and sharding.

One module each for the stages of ZeRO (the shortest, start there), for gradients, for sharded
models, for the types of their weights, and for what is computed again.
"""

from d2lmini.checks.sharding.gradients import (
    check_global_norm,
    check_loss_scale,
    check_loss_weight,
)
from d2lmini.checks.sharding.master_weights import check_shard_in_float32
from d2lmini.checks.sharding.models import check_count_gathers, check_prepare
from d2lmini.checks.sharding.recomputing import check_recompute_where
from d2lmini.checks.sharding.stages import check_choose_stage

__all__ = [
    "check_choose_stage",
    "check_count_gathers",
    "check_global_norm",
    "check_loss_scale",
    "check_loss_weight",
    "check_prepare",
    "check_recompute_where",
    "check_shard_in_float32",
]

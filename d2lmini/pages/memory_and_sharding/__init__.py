"""The chapter on memory and sharding.

``memory.py`` watches a step on one GPU, ``layers.py`` has layers to shard and times them, and
``jobs.py`` measures a sharded model and starts scripts.
"""

from d2lmini.pages.memory_and_sharding.jobs import (
    adam_seconds,
    measure_step,
    tiny_targets,
    train_script,
)
from d2lmini.pages.memory_and_sharding.layers import (
    batches,
    busy_share,
    ddp_weights,
    draw_shares,
    hsdp_weights,
    layers_timeline,
    network,
    spent,
)
from d2lmini.pages.memory_and_sharding.memory import (
    count_parameters,
    draw_memory,
    step_memory,
    train_step,
)

__all__ = [
    "adam_seconds",
    "batches",
    "busy_share",
    "count_parameters",
    "ddp_weights",
    "draw_memory",
    "draw_shares",
    "hsdp_weights",
    "layers_timeline",
    "measure_step",
    "network",
    "spent",
    "step_memory",
    "tiny_targets",
    "train_script",
    "train_step",
]

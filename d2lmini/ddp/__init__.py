"""Data-parallel training with one process per device: the parts of `train_ddp.py`."""

from d2lmini.ddp.checkpoint import begin_or_resume, load_checkpoint, save_checkpoint
from d2lmini.ddp.choice import Offer, choose_backend
from d2lmini.ddp.collect import (
    average_buffers,
    check_equal_on_ranks,
    fingerprint,
    sum_over_ranks,
    wait_for_all_ranks,
)
from d2lmini.ddp.group import Worker, process_group
from d2lmini.ddp.images import load_images, pick, synthetic_images
from d2lmini.ddp.launch import launch, launcher_environment, torchrun_command
from d2lmini.ddp.precision import autocast, choose_precision
from d2lmini.ddp.sharding import ShardedBatchSampler, my_share
from d2lmini.ddp.wrap import wrap_model

__all__ = [
    "Offer",
    "ShardedBatchSampler",
    "Worker",
    "autocast",
    "average_buffers",
    "begin_or_resume",
    "check_equal_on_ranks",
    "choose_backend",
    "choose_precision",
    "fingerprint",
    "launch",
    "launcher_environment",
    "load_checkpoint",
    "load_images",
    "my_share",
    "pick",
    "process_group",
    "save_checkpoint",
    "sum_over_ranks",
    "synthetic_images",
    "torchrun_command",
    "wait_for_all_ranks",
    "wrap_model",
]

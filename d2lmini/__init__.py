"""Helpers of the book *Dive into Multi-GPU Training*."""

import simgpu as sim
from d2lmini.data import load_data_fashion_mnist, load_text, text_batch, to_text
from d2lmini.devices import (
    device_name,
    devices_in_use,
    gpus,
    is_simulated,
    try_all_gpus,
    try_gpu,
)
from d2lmini.evaluation import accuracy, evaluate_accuracy
from d2lmini.language_model import LanguageModel
from d2lmini.plotting import Animator
from d2lmini.recording import record
from d2lmini.resnet import Residual, group_norm, resnet18
from d2lmini.streams import Event, Stream, current_stream, empty_pinned
from d2lmini.timing import Benchmark, Timer, now, synchronize
from d2lmini.training import (
    allreduce,
    get_params,
    init_params,
    lenet,
    loss_sum,
    sgd,
    split_batch,
    train_batch,
    train_networks,
    train_shards,
)
from simgpu.timeline import Timeline

__version__ = sim.__version__

__all__ = [
    "Animator",
    "Benchmark",
    "Event",
    "LanguageModel",
    "Residual",
    "Stream",
    "Timeline",
    "Timer",
    "accuracy",
    "allreduce",
    "current_stream",
    "device_name",
    "devices_in_use",
    "empty_pinned",
    "evaluate_accuracy",
    "get_params",
    "gpus",
    "group_norm",
    "init_params",
    "is_simulated",
    "lenet",
    "load_data_fashion_mnist",
    "load_text",
    "loss_sum",
    "now",
    "record",
    "resnet18",
    "sgd",
    "sim",
    "split_batch",
    "synchronize",
    "text_batch",
    "to_text",
    "train_batch",
    "train_networks",
    "train_shards",
    "try_all_gpus",
    "try_gpu",
]

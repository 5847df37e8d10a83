"""What ``make bench`` measures: each module has ``rows(settings)``, an iterable of `Row`.

``settings`` is a `benchmarks.measure.Settings`; what needs several processes is measured by
`benchmarks.cases.worker`.
"""

import importlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Benchmark:
    """What is said about a benchmark above its table."""

    title: str
    about: str


BENCHMARKS = {
    "machine": Benchmark(
        "The machine",
        "One plain operation each, to compare with. None is an upper bound: what stays in the "
        "caches moves faster, and the same product may be faster in another round.",
    ),
    "loader": Benchmark("Loading data", "Fashion-MNIST as float32 batches."),
    "lenet": Benchmark("LeNet", "An epoch of training and an evaluation, data loading included."),
    "parallel": Benchmark(
        "Data parallelism from scratch",
        "One update with a minibatch that is split over k devices.",
    ),
    "allreduce": Benchmark(
        "Allreduce",
        "Tensors of k devices are summed, and each device gets the sum.",
    ),
    "ddp": Benchmark(
        "DistributedDataParallel",
        "The training step of the book's script, over processes.",
    ),
    "resnet": Benchmark("ResNet-18", "Training steps with data in the device's memory."),
    "sim": Benchmark("Simulated GPUs", "What simulating costs."),
    "book": Benchmark("The book", "Building its pages, and what a reader's browser loads."),
}


def load(name):
    """Return the module of a benchmark."""
    return importlib.import_module(f"benchmarks.cases.{name}")

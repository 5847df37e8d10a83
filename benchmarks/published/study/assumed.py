"""What becomes of the book's conclusions if an assumed constant is another."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from benchmarks.published.families import vtrain
from benchmarks.published.study import conclusions
from simgpu.clock import contention
from simgpu.hardware import assumptions, attention, find_gpu_and_link, matmul_efficiency
from simgpu.network import collective_costs, measured, networks
from simgpu.plan.simulate import simulate


@dataclass(frozen=True)
class Conclusion:
    """A conclusion of the book: words, where it is drawn, and what it says of a number.

    Attributes
    ----------
    words, chapter : str
    find : callable
        Takes a GPU and a link, returns the number.
    low, high : float
        The conclusion holds if the number is between them.
    """

    words: str
    chapter: str
    find: Callable
    low: float = 0.0
    high: float = float("inf")

    def holds(self, value):
        """Say whether the conclusion holds if the number is `value`."""
        return self.low < value < self.high


@dataclass(frozen=True)
class Assumption:
    """A constant that no data sheet gives, and the range in which it is varied.

    Attributes
    ----------
    words : str
        Its name with the range.
    values : tuple
        What it might be, the preset's value left out.
    change : callable, optional
        Takes a GPU, a link and a value, returns the two with it.
    names : tuple
        The constants of `constants.CONSTANTS` that it is.
    where : tuple, optional
        The module and the name of the constant, if it belongs to neither: it has the value while
        the conclusion is computed.
    make : callable
        Returns the constant for a value; unless given, the value.
    """

    words: str
    values: tuple
    change: Callable = lambda gpu, link, value: (gpu, link)
    names: tuple = ()
    where: tuple | None = None
    make: Callable = lambda value: value

    @contextmanager
    def applied(self, value):
        """Give the constant of a module a value within the block."""
        if self.where is None:
            yield
            return
        module, name = self.where
        kept = getattr(module, name)
        try:
            setattr(module, name, self.make(value))
            forget()
            yield
        finally:
            setattr(module, name, kept)
            forget()


def forget():
    """Forget what is cached of costs: a constant changes."""
    collective_costs.forget()
    matmul_efficiency.matmul_efficiency.cache_clear()
    matmul_efficiency.products_efficiency.cache_clear()
    simulate.cache_clear()


def _gpu(gpu, link, value, *names):
    return replace(gpu, **dict.fromkeys(names, value)), link


def _wires(gpu, link, share):
    factor = share / assumptions.LINK_EFFICIENCY
    rates = {name: factor * getattr(link, name) for name in ("bandwidth", "peer_bandwidth")}
    return gpu, replace(link, **rates)


def _latency(gpu, link, seconds):
    return gpu, replace(link, latency=seconds, peer_latency=seconds)


def _host_memory(gpu, link, factor):
    names = ("pageable_bandwidth", "pageable_to_host")
    return gpu, replace(link, **{name: factor * getattr(link, name) for name in names})


def launch(gpu, link, seconds):
    """Change the time of a launch."""
    return _gpu(gpu, link, seconds, "launch_overhead")


def _collective_launch(gpu, link, seconds):
    return _gpu(gpu, link, seconds, "collective_launch_overhead")


def _kernel(gpu, link, seconds):
    return _gpu(gpu, link, seconds, "kernel_overhead")


def _arithmetic(gpu, link, share):
    return _gpu(gpu, link, share, "compute_efficiency", "matmul_efficiency")


def _host_rate(gpu, link, rate):
    return gpu, replace(link, host_rate=rate)


def _memory(gpu, link, share):
    return _gpu(gpu, link, share, "memory_efficiency")


def _times(constants, factor):
    return {name: factor * value for name, value in constants.items()}


LAUNCHES = (2e-6, assumptions.LAUNCH_OVERHEAD, 10e-6, 15e-6, vtrain.LAUNCH)

ASSUMPTIONS = (
    Assumption("launch: 2 to 15 µs", (2e-6, 10e-6, 15e-6), launch, ("LAUNCH_OVERHEAD",)),
    Assumption("collective on the host: 20 to 30 µs", (20e-6, 30e-6), _collective_launch,
               ("COLLECTIVE_LAUNCH_OVERHEAD",)),
    Assumption("kernel: 1 to 5 µs", (1e-6, 5e-6), _kernel, ("KERNEL_OVERHEAD",)),
    Assumption("arithmetic: 40 to 90%", (0.4, 0.9), _arithmetic, ("COMPUTE_EFFICIENCY", "BEST")),
    Assumption("memory: 40 to 90%", (0.4, 0.9), _memory, ("MEMORY_EFFICIENCY",)),
    Assumption("wires: 50 to 95%", (0.5, 0.95), _wires, ("LINK_EFFICIENCY",)),
    Assumption("latency of copies: 2 to 20 µs", (2e-6, 20e-6), _latency, ("COPY_LATENCY",)),
    Assumption("host memory: 1 to 4 times as fast", (2, 4), _host_memory,
               ("PAGEABLE_TO_DEVICE", "PAGEABLE_TO_HOST")),
    Assumption("all GPUs through one host: 40 to 160 GB/s", (40e9, 160e9), _host_rate,
               ("HOST_RATE",)),
    *(Assumption(words, values, names=(where[1],), where=where) for words, values, where in (
        ("thin products: from a side of 16 to 64", (16, 64), (matmul_efficiency, "THIN")),
        ("small tiles: 8 to 32", (8, 32), (matmul_efficiency, "TILE_LOSS")),
        ("shallow products: 64 to 256", (64, 256), (matmul_efficiency, "DEPTH_LOSS")),
        ("collectives take at most: 70 to 98%", (0.7, 0.98), (contention, "MOST")),
        ("large messages: 90 to 100% of NCCL's rate", (0.9, 1.0), (measured, "WIRE")),
        ("links fill: 0 to 3 MiB a channel", (0.0, 3 * 2**20), (measured, "FILL")),
        ("network cards: 85 to 100%", (0.85, 1.0), (networks, "NETWORK_EFFICIENCY")),
        ("channels over a network: 1 to 8", (1, 8), (collective_costs, "NETWORK_CHANNELS")),
    )),
    Assumption("latency of switches: 0.25 to 4 times", (0.25, 4.0),
               names=("SWITCH_LATENCY", "ETHERNET_LATENCY"), where=(conclusions, "LATENCY_FACTOR")),
    Assumption("first byte: 0 to 2 times as late", (0.0, 2.0), names=("START",),
               where=(measured, "START"), make=partial(_times, measured.START)),
    Assumption("one channel: 0.7 to 1.4 times as fast", (0.7, 1.4), names=("PAIR_CHANNEL_RATE",),
               where=(measured, "PAIR_CHANNEL_RATE"),
               make=partial(_times, measured.PAIR_CHANNEL_RATE)),
    Assumption("flash attention: 40 to 75%, on an A100", (0.4, 0.75), names=("FLASH",),
               where=(attention, "FLASH"), make=partial(dict.fromkeys, attention.FLASH)),
)  # fmt: skip


def varied():
    """Return ``{name of a constant: the range in which the study varies it}``."""
    return {name: a.words.partition(": ")[2] for a in ASSUMPTIONS for name in a.names}


def _split(words, than, network=None, sizes=conclusions.SMALL):
    return partial(conclusions.model, words=words, than=than, network=network, sizes=sizes)


CONCLUSIONS = (
    Conclusion("100,000 numbers are added in the time of 1,000", "devices",
               conclusions.additions, high=1.1),
    Conclusion("two GPUs finish 100 products in half the time", "auto-parallelism",
               conclusions.products, low=1.9),
    Conclusion("copies to pinned memory hide behind products", "auto-parallelism",
               conclusions.hidden, high=1.1),
    Conclusion("copying a product to ordinary host memory takes longer than computing it",
               "auto-parallelism", conclusions.copies, low=1),
    Conclusion("LeNet, 256 images in all: two GPUs are slower than one", "multiple-gpus",
               partial(conclusions.lenet, images=256, per_gpu=False), high=1),
    Conclusion("LeNet, 16,384 images for each GPU: two GPUs are faster", "multiple-gpus",
               partial(conclusions.lenet, images=2**14, per_gpu=True), low=1.1),
    Conclusion("ResNet-18, DDP, 256 images for each GPU: the second GPU pays",
               "multiple-gpus-concise", partial(conclusions.resnet, per_gpu=256), low=1.5),
    Conclusion("ResNet-18, DDP, eight GPUs over PCIe: in one bucket a step is longer",
               "overlap-and-scaling", partial(conclusions.pcie, per_gpu=256), low=1.1),
    Conclusion("ResNet-18, DDP over Ethernet: without overlap a step is longer",
               "overlap-and-scaling", partial(conclusions.overlap, per_gpu=256), low=1.05),
    Conclusion("Transformer, 8 GPUs: FSDP costs hardly any time, beside DDP",
               "memory-and-sharding",
               _split("--gpus 8 --shard 3 --batch 8", "--gpus 8 --shard 0 --batch 8"), high=1.1),
    Conclusion("Transformer, two nodes with a card each: 16 ranks of tensors are slower than 8",
               "tensor-parallelism",
               _split("--gpus 16 --tp 16 --batch 1", "--gpus 8 --tp 8 --batch 1", "ethernet200"),
               low=1.1),
    Conclusion("Transformer, four stages: of 4 micro-batches each takes longer than of 32",
               "pipeline-parallelism",
               _split("--gpus 4 --pp 4 --batch 4", "--gpus 4 --pp 4 --batch 32"), low=1.1),
    Conclusion("Transformer, two nodes: tensors over both are slower than a pipeline between them",
               "putting-it-together",
               _split("--gpus 16 --tp 16 --batch 8", "--gpus 16 --tp 8 --pp 2 --batch 8", "hdr"),
               low=1.1),
    Conclusion("Experts, two nodes: one set on both is slower than a set on each", "experts",
               _split("--gpus 16 --ep 16 --batch 16", "--gpus 16 --ep 8 --batch 16", "hdr",
                      conclusions.EXPERTS), low=1.05),
)  # fmt: skip
# Those that turn around for some launch overhead of LAUNCHES: no conclusions of the book.
BETWEEN = (
    Conclusion("LeNet, 256 images for each GPU: two GPUs are faster", "multiple-gpus",
               partial(conclusions.lenet, images=256, per_gpu=True), low=1),
    Conclusion("ResNet-18, DDP, 32 images for each GPU: two GPUs are faster",
               "multiple-gpus-concise", partial(conclusions.resnet, per_gpu=32), low=1),
)  # fmt: skip


@lru_cache(maxsize=1024)
def preset(conclusion):
    """Return a conclusion's number with the book's default GPU and link."""
    return float(conclusion.find(*find_gpu_and_link()))


@lru_cache(maxsize=1024)
def changed(conclusion, assumption, value):
    """Return a conclusion's number with another value of a constant."""
    with assumption.applied(value):
        return float(conclusion.find(*assumption.change(*find_gpu_and_link(), value)))


def by_launch(conclusion):
    """Return a conclusion's number for each of `LAUNCHES`."""
    return [
        preset(conclusion) if value == assumptions.LAUNCH_OVERHEAD
        else changed(conclusion, ASSUMPTIONS[0], value)
        for value in LAUNCHES
    ]  # fmt: skip


def by_assumption(conclusion):
    """Return a conclusion's numbers for each of `ASSUMPTIONS`, the preset's first."""
    return [
        [preset(conclusion), *(changed(conclusion, a, value) for value in a.values)]
        for a in ASSUMPTIONS
    ]


def study():
    """Simulate all: ``({conclusion: by_launch}, {conclusion: by_assumption})``."""
    launches = {c: by_launch(c) for c in (*CONCLUSIONS, *BETWEEN)}
    return launches, {c: by_assumption(c) for c in CONCLUSIONS}

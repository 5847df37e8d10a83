"""All constants of the simulator that no data sheet gives: fitted, or assumed."""

from dataclasses import dataclass
from types import ModuleType

from simgpu.clock import contention, streams
from simgpu.hardware import assumptions, attention, matmul_efficiency
from simgpu.network import collective_costs, measured, networks
from simgpu.ranks.communication import costs
from simgpu.units import quantity, size

ASSUMED, FITTED = "assumed", "fitted"
SHARE, BYTES = "share", "B"  # units besides "s", "B/s" and none


@dataclass(frozen=True)
class Constant:
    """A constant, by the module that has it.

    Attributes
    ----------
    module : module
    name : str
    words : str
        What it is.
    unit : str
        ``"s"``, ``"B/s"``, `BYTES`, `SHARE`, or none.
    kind : str
        `ASSUMED` (a round number, or the middle of what is published) or `FITTED` (to
        measurements).
    source : str
        What it was fitted to, or why it is what it is.
    """

    module: ModuleType
    name: str
    words: str
    unit: str
    kind: str
    source: str

    @property
    def value(self):
        """What it is now."""
        return getattr(self.module, self.name)


def _of(module, *lines):
    return tuple(Constant(module, *line) for line in lines)


CONSTANTS = (
    *_of(
        assumptions,
        ("COMPUTE_EFFICIENCY", "share of the arithmetic peak that a kernel reaches", SHARE,
         ASSUMED, "60 to 90% are usual"),
        ("MEMORY_EFFICIENCY", "share of the memory's bandwidth that a kernel reaches", SHARE,
         ASSUMED, "streaming kernels reach about 80%"),
        ("LAUNCH_OVERHEAD", "host's time for one operation", "s",
         ASSUMED, "an eager program: Python, PyTorch and driver"),
        ("COMPILED_CALL", "host's time for one call of a compiled graph, its kernels apart", "s",
         ASSUMED, "guards, and the runtime of AOTAutograd: tens of µs are usual"),
        ("COLLECTIVE_LAUNCH_OVERHEAD", "host's time for one collective or message", "s",
         ASSUMED, "the middle of 20 to 30 µs, measured for `all_reduce`"),
        ("KERNEL_OVERHEAD", "gap between two short kernels", "s", ASSUMED, "both are queued"),
        ("CPU_OVERHEAD", "time of an operation on the CPU besides its work", "s",
         ASSUMED, "no driver, no queue"),
        ("LINK_EFFICIENCY", "share of a wire's rate that a copy reaches", SHARE,
         ASSUMED, "0.77 to 0.96 were measured"),
        ("COPY_LATENCY", "latency of a copy", "s", ASSUMED, "the same for all links"),
        ("PAGEABLE_TO_DEVICE", "copies from ordinary host memory", "B/s",
         ASSUMED, "one host thread copies"),
        ("PAGEABLE_TO_HOST", "copies to ordinary host memory", "B/s",
         FITTED, "3.2 GB in 2.13 s on RTX 4090s"),
        ("STAGING_CHUNK", "piece in which copies pass through the host", BYTES,
         FITTED, "copies without peer access, three machines"),
        ("HOST_RATE", "all copies through one host together", "B/s",
         ASSUMED, "eight channels of DDR4-3200 at 80%, each byte written and read"),
    ),
    *_of(
        matmul_efficiency,
        ("BEST", "share of the peak of tensor cores at the best shape", SHARE,
         ASSUMED, "only for GPUs without a published best"),
        ("TILE_LOSS", "what small tiles of a product lose", "",
         ASSUMED, "small tiles load more for each result"),
        ("ODD_ROWS", "rate of products whose rows hold an odd number of 16-bit elements", SHARE,
         FITTED, "GPT-2 with a vocabulary of 50,257 and of 50,304"),
        ("DEPTH_LOSS", "what shallow products lose", "", ASSUMED, "a tile has a start and an end"),
        ("THIN", "side below which memory alone limits a product", "",
         ASSUMED, "half a side of the smallest tile"),
    ),
    *_of(
        attention,
        ("FLASH", "share of the peak of flash attention, by compute capability", SHARE,
         ASSUMED, "the middle of what its authors publish"),
        ("CUDNN", "share of the peak of cuDNN's attention", SHARE,
         ASSUMED, "the middle of published figures, H100"),
        ("EFFICIENT", "memory-efficient attention, as a share of flash attention", SHARE,
         ASSUMED, "flash attention is about twice as fast"),
        ("FLEX", "FlexAttention, forward, as a share of flash attention", SHARE,
         ASSUMED, "what PyTorch publishes of it"),
        ("FLEX_BACKWARD", "FlexAttention, backward, as a share of flash attention", SHARE,
         ASSUMED, "what PyTorch publishes of it"),
        ("TF32_PRODUCTS", "TF32 products for one product in float32", "",
         ASSUMED, "what PyTorch's kernel does"),
    ),
    *_of(
        contention,
        ("MOST", "share of a GPU that collectives take at most", SHARE,
         ASSUMED, "so that kernels still make progress"),
    ),
    *_of(
        streams,
        ("POLL_SECONDS", "host's time to ask whether work on a GPU is done", "s",
         ASSUMED, "so that a loop that asks ends"),
    ),
    *_of(
        costs,
        ("HOST_SECONDS", "a collective of tensors on the host", "s",
         ASSUMED, "they are small: sizes, votes, pickled objects"),
    ),
    *_of(
        measured,
        ("WIRE", "share of NCCL's rate that large messages reach", SHARE,
         FITTED, "the rows of `sweeps.csv`"),
        ("FILL", "bytes of a channel before the links are busy", BYTES,
         FITTED, "a slice of NCCL's, which the same rows choose"),
        ("START", "seconds before the first byte beyond NCCL's", "s",
         FITTED, "eight B200s at 1 KiB"),
        ("PAIR_CHANNEL_RATE", "rate of one channel between two GPUs", "B/s",
         FITTED, "A100, B200: a row each; others assumed"),
    ),
    *_of(
        collective_costs,
        ("NETWORK_CHANNELS", "channels of a message over a network or PCIe", "",
         ASSUMED, "a few fill one network card"),
    ),
    *_of(
        networks,
        ("NETWORK_EFFICIENCY", "share of a network card's rate", SHARE,
         ASSUMED, "NCCL assumes 12 of 12.5 GB/s"),
        ("ETHERNET_LATENCY", "latency that Ethernet adds", "s", ASSUMED, "TCP in the kernel"),
        ("EFA_LATENCY", "latency that EFA adds", "s",
         FITTED, "sums of 8 B over two P5 instances"),
        ("SWITCH_LATENCY", "latency that InfiniBand adds", "s", ASSUMED, "cable and switch"),
    ),
)  # fmt: skip


def constant_table(varied=()):
    """Return the lines ``(words, value, kind, source, varied, name)`` of all constants, in words.

    `varied` is ``{name of a constant: the range in which it is varied}``.
    """
    return [
        (
            c.words,
            _words(c.value, c.unit),
            c.kind,
            c.source,
            dict(varied).get(c.name, "no"),
            f"`{c.module.__name__.removeprefix('simgpu.')}.{c.name}`",
        )
        for c in CONSTANTS
    ]


def _words(value, unit):
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_words(part, unit)}" for key, part in value.items())
    if unit == SHARE:
        return f"{value:.0%}"
    if unit == BYTES:
        return size(value)
    return quantity(value, unit) if unit else f"{value:g}"

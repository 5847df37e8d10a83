"""All constants of the simulator that no data sheet gives: fitted, or assumed."""

from dataclasses import dataclass
from types import ModuleType

from simgpu.clock import contention
from simgpu.hardware import assumptions, matmul_efficiency
from simgpu.network import collective_costs, measured, networks

ASSUMED, FITTED = "assumed", "fitted"


@dataclass(frozen=True)
class Constant:
    """A constant, by the module that has it.

    Attributes
    ----------
    module : module
    name : str
    kind : str
        `ASSUMED` (a round number) or `FITTED` (to measurements).
    source : str
        What it was fitted to, or why it is what it is.
    """

    module: ModuleType
    name: str
    kind: str
    source: str

    @property
    def value(self):
        """What it is now."""
        return getattr(self.module, self.name)


CONSTANTS = (
    Constant(assumptions, "COMPUTE_EFFICIENCY", ASSUMED, "60 to 90% of the peak are usual"),
    Constant(assumptions, "MEMORY_EFFICIENCY", ASSUMED, "streaming kernels reach about 80%"),
    Constant(assumptions, "LAUNCH_OVERHEAD", ASSUMED, "one operation of an eager program"),
    Constant(assumptions, "KERNEL_OVERHEAD", ASSUMED, "gap between two short kernels"),
    Constant(assumptions, "CPU_OVERHEAD", ASSUMED, "one operation on the CPU"),
    Constant(assumptions, "LINK_EFFICIENCY", ASSUMED, "0.77 to 0.96 were measured"),
    Constant(assumptions, "COPY_LATENCY", ASSUMED, "the same for all links"),
    Constant(assumptions, "PAGEABLE_TO_DEVICE", ASSUMED, "one host thread copies"),
    Constant(assumptions, "PAGEABLE_TO_HOST", FITTED, "3.2 GB in 2.13 s, RTX 4090"),
    Constant(assumptions, "STAGING_CHUNK", FITTED, "copies without peer access, three machines"),
    Constant(assumptions, "HOST_RATE", ASSUMED, "eight channels of DDR4-3200 at 80%, both ways"),
    Constant(matmul_efficiency, "BEST", ASSUMED, "GPUs without a published best"),
    Constant(matmul_efficiency, "TILE_LOSS", ASSUMED, "small tiles load more"),
    Constant(matmul_efficiency, "DEPTH_LOSS", ASSUMED, "prologue and epilogue of a tile"),
    Constant(matmul_efficiency, "THIN", ASSUMED, "half a side of the smallest tile"),
    Constant(contention, "MOST", ASSUMED, "so that kernels still make progress"),
    Constant(measured, "WIRE", FITTED, "255 rows of sweeps.csv, nine machines"),
    Constant(measured, "FILL", FITTED, "a slice of NCCL's, which the same rows choose too"),
    Constant(measured, "START", FITTED, "a sweep over eight B200s at 1 KiB"),
    Constant(measured, "PAIR_CHANNEL_RATE", FITTED, "A100, B200: a row each; others assumed"),
    Constant(collective_costs, "NETWORK_CHANNELS", ASSUMED, "a few fill one network card"),
    Constant(networks, "NETWORK_EFFICIENCY", ASSUMED, "NCCL assumes 12 of 12.5 GB/s"),
    Constant(networks, "ETHERNET_LATENCY", ASSUMED, "kernel TCP"),
    Constant(networks, "EFA_LATENCY", FITTED, "sums of 8 B over two P5 instances"),
    Constant(networks, "SWITCH_LATENCY", ASSUMED, "InfiniBand, cable and switch"),
)


def constant_table():
    """Return the lines ``(name, value, kind, source)`` of all constants, in words."""
    return [
        (
            f"`{c.module.__name__.removeprefix('simgpu.')}.{c.name}`",
            _words(c.value),
            c.kind,
            c.source,
        )
        for c in CONSTANTS
    ]


def _words(value):
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(part)}" for key, part in value.items())
    return f"{value:g}"

"""The specifications of simulated GPUs and CPUs, and the time of a kernel on them.

A kernel takes ``overhead + max(FLOPs / (peak * efficiency), bytes / (bandwidth * efficiency))``
seconds (the roofline of Williams, Waterman and Patterson, 2009). Links are in ``link.py``, the
presets in ``presets.py``, numbers that no data sheet gives in ``assumptions.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from simgpu.hardware.assumptions import (
    COLLECTIVE_LAUNCH_OVERHEAD,
    COMPUTE_EFFICIENCY,
    CPU_OVERHEAD,
    KERNEL_OVERHEAD,
    LAUNCH_OVERHEAD,
    MEMORY_EFFICIENCY,
)
from simgpu.hardware.attention import FusedAttention, attention_efficiency
from simgpu.hardware.matmul_efficiency import BEST, products_efficiency
from simgpu.hardware.validation import (
    check_efficiencies,
    check_flops,
    check_name,
    check_positive,
    check_times,
)

OVERHEADS = "launch_overhead", "kernel_overhead", "collective_launch_overhead"
ITEM_BYTES = {"float64": 8, "float32": 4, "tf32": 4, "bfloat16": 2, "float16": 2}
ITEM_BYTES |= {"float8": 1, "int8": 1}


def _peak(spec, dtype):
    """Return the peak FLOP/s for a dtype."""
    if dtype not in spec.flops:
        raise ValueError(
            f"{spec.name} has no peak for dtype {dtype!r}; known: {', '.join(spec.flops)}"
        )
    return spec.flops[dtype]


def _roofline(spec, flops, nbytes, dtype, efficiency, taken=(0.0, 0.0)):
    """Return the longer of arithmetic and memory time; `taken`: shares of both that others use."""
    arithmetic = flops / (_peak(spec, dtype) * efficiency)
    traffic = nbytes / (spec.memory_bandwidth * spec.memory_efficiency)
    return max(arithmetic / (1 - taken[0]), traffic / (1 - taken[1]))


@dataclass(frozen=True)
class GPU:
    """One GPU: its peak rates, and the shares of them that programs reach.

    Attributes
    ----------
    name : str
        Name of the preset or of the measured device.
    flops : dict of str to float
        Peak FLOP/s for each of ``"float32"``, ``"tf32"``, ``"bfloat16"``, ``"float16"``, and
        ``"float64"``, ``"float8"`` and ``"int8"`` if the GPU has units for them and their rate is
        known: what needs one that is left out is refused. ``"tf32"``
        applies to float32 data that tensor cores may round: convolutions by default on Ampere and
        later, matrix products only when ``torch.backends.cuda.matmul.allow_tf32`` is set.
    memory_bandwidth : float
        Peak bandwidth of the device memory, bytes/s.
    memory : int
        Capacity, bytes.
    launch_overhead : float
        Host time to issue one operation, seconds.
    backward_launch_overhead : float, optional
        The same for operations of a backward pass, which autograd issues from C++; by default
        `launch_overhead`.
    collective_launch_overhead : float
        Host time to issue one collective, message, or batch of messages, seconds.
    kernel_overhead : float
        Fixed device time of every kernel, seconds.
    compute_efficiency, memory_efficiency : float
        Share of the two peaks that kernels reach, in (0, 1]; for products on tensor cores,
        `compute_efficiency` applies only if `multiprocessors` is None.
    multiprocessors : int, optional
        Number of multiprocessors. If given, the efficiency of a matrix product or convolution on
        tensor cores depends on its shape (``simgpu/hardware/matmul_efficiency.py``).
    matmul_efficiency : float, optional
        Share of the peak that products of the best shape reach on tensor cores, in (0, 1]; by
        default `simgpu.hardware.matmul_efficiency.BEST`.
    sources : dict of str to str
        Where each number comes from.

    Raises
    ------
    ValueError
        If a number is not positive and finite (overheads may be 0), an efficiency is above 1, or
        a dtype's peak is missing.
    """

    name: str
    flops: Mapping[str, float] = field(hash=False)
    memory_bandwidth: float
    memory: int
    launch_overhead: float = LAUNCH_OVERHEAD
    kernel_overhead: float = KERNEL_OVERHEAD
    compute_efficiency: float = COMPUTE_EFFICIENCY
    memory_efficiency: float = MEMORY_EFFICIENCY
    multiprocessors: int | None = None
    matmul_efficiency: float | None = None
    collective_launch_overhead: float = COLLECTIVE_LAUNCH_OVERHEAD
    backward_launch_overhead: float | None = None
    sources: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def __post_init__(self):
        check_name(self)
        check_flops(self)
        check_positive(self, ("memory_bandwidth", "memory"))
        check_times(self, OVERHEADS)
        if self.backward_launch_overhead is not None:
            check_times(self, ("backward_launch_overhead",))
        check_efficiencies(self, ("compute_efficiency", "memory_efficiency"))
        if self.multiprocessors is not None:
            check_positive(self, ("multiprocessors",))
            if self.multiprocessors % 1:
                raise ValueError(
                    f"GPU {self.name!r}: multiprocessors is {self.multiprocessors}; give a whole "
                    "number"
                )
        if self.matmul_efficiency is not None:
            check_efficiencies(self, ("matmul_efficiency",))

    def efficiency(self, dtype, products=()) -> float:
        """Return the share of the peak that the arithmetic of one kernel reaches.

        Parameters
        ----------
        dtype : str
            Key of `flops`. If its peak is above float32's, the kernel uses tensor cores.
        products : tuple of tuple of int
            The matrix products that the kernel consists of, as `products_efficiency` takes
            them, or a `FusedAttention`, whose share is in ``simgpu/hardware/attention.py``. Without
            products, tensor cores or a known number of `multiprocessors`, the share is
            `compute_efficiency`.

        Examples
        --------
        A large product, and one too small to occupy all multiprocessors:

        >>> from simgpu.hardware.presets import find_gpu
        >>> gpu = find_gpu("a100")
        >>> [round(gpu.efficiency("bfloat16", [(n, n, n, 1)]), 2) for n in (4096, 512)]
        [0.8, 0.33]
        >>> gpu.efficiency("float32", [(512, 512, 512, 1)])
        0.75
        """
        if isinstance(products, FusedAttention):
            return attention_efficiency(self, products.kernel, dtype)
        on_tensor_cores = _peak(self, dtype) > self.flops["float32"]
        if not products or not on_tensor_cores or self.multiprocessors is None:
            return self.compute_efficiency
        best = BEST if self.matmul_efficiency is None else self.matmul_efficiency
        return products_efficiency(tuple(products), self.multiprocessors, best)

    def seconds(self, flops, nbytes, dtype="float32", products=()) -> float:
        """Return the device time of one kernel, in seconds.

        Parameters
        ----------
        flops : float
            Floating-point operations.
        nbytes : float
            Bytes read plus bytes written.
        dtype : str, default "float32"
            Key of `flops`.
        products : tuple of tuple of int
            As for `efficiency`.

        Examples
        --------
        A kernel that reads and writes 64 MB, in milliseconds:

        >>> from simgpu.hardware.presets import find_gpu
        >>> round(1e3 * find_gpu("v100").seconds(0, 2 * 64e6), 2)
        0.18
        """
        if flops == 0 and dtype in self.flops:  # fast path: most kernels have no FLOPs to count
            return self.kernel_overhead + nbytes / (self.memory_bandwidth * self.memory_efficiency)
        efficiency = self.efficiency(dtype, products)
        return self.kernel_overhead + _roofline(self, flops, nbytes, dtype, efficiency)

    def seconds_beside(self, flops, nbytes, dtype, products, multiprocessors, memory) -> float:
        """Return the device time of one kernel while a collective uses part of the GPU, in seconds.

        Parameters
        ----------
        flops, nbytes, dtype, products
            As for `seconds`.
        multiprocessors, memory : float
            Shares of the multiprocessors and of the achieved memory bandwidth that the collective
            uses, in [0, 1).

        Examples
        --------
        A compute-bound kernel takes 25 % longer on 80 % of the multiprocessors:

        >>> from simgpu.hardware.presets import find_gpu
        >>> gpu = find_gpu("a100")
        >>> beside = gpu.seconds_beside(10**13, 0, "float16", (), multiprocessors=0.2, memory=0.5)
        >>> round(beside / gpu.seconds(10**13, 0, "float16"), 2)
        1.25
        """
        efficiency, taken = self.efficiency(dtype, products), (multiprocessors, memory)
        return self.kernel_overhead + _roofline(self, flops, nbytes, dtype, efficiency, taken)

    def slower(self, factor):
        """Return a GPU like this one whose kernels all take `factor` times as long."""
        return replace(
            self,
            flops={dtype: rate / factor for dtype, rate in self.flops.items()},
            memory_bandwidth=self.memory_bandwidth / factor,
            kernel_overhead=self.kernel_overhead * factor,
        )

    def matmul_seconds(self, m, n, k, batch=1, dtype="float32"):
        """Return the device time of `batch` products ``(m, k) @ (k, n)`` in one kernel, in seconds.

        Parameters
        ----------
        m, n, k : int
        batch : int
        dtype : str
            Key of `flops`.

        Examples
        --------
        A product of two 4000 x 4000 matrices, in milliseconds:

        >>> from simgpu.hardware.presets import find_gpu
        >>> round(1e3 * find_gpu("a100").matmul_seconds(4000, 4000, 4000), 2)
        8.75
        """
        flops, values = 2 * batch * m * n * k, batch * (m * k + k * n + m * n)
        return self.seconds(flops, values * ITEM_BYTES[dtype], dtype, ((m, n, k, batch),))


@dataclass(frozen=True)
class CPU:
    """The host, for operations on CPU tensors that are charged to the host clock.

    Attributes
    ----------
    name : str
        Name of the preset.
    flops : dict of str to float
        Peak FLOP/s by dtype, with the keys of `GPU.flops`.
    memory_bandwidth : float
        Peak bandwidth of the main memory, bytes/s.
    op_overhead : float
        Fixed time of every operation, seconds.
    compute_efficiency, memory_efficiency : float
        Share of the two peaks that operations reach, in (0, 1].
    sources : dict of str to str
        Where each number comes from.

    Raises
    ------
    ValueError
        As for `GPU`.

    Examples
    --------
    >>> from simgpu import CPUS
    >>> CPUS["server16"].seconds(flops=10**9, nbytes=0, dtype="float32") < 0.01
    True
    """

    name: str
    flops: Mapping[str, float] = field(hash=False)
    memory_bandwidth: float
    op_overhead: float = CPU_OVERHEAD
    compute_efficiency: float = COMPUTE_EFFICIENCY
    memory_efficiency: float = MEMORY_EFFICIENCY
    sources: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def __post_init__(self):
        check_name(self)
        check_flops(self)
        check_positive(self, ("memory_bandwidth",))
        check_times(self, ("op_overhead",))
        check_efficiencies(self, ("compute_efficiency", "memory_efficiency"))

    def seconds(self, flops: float, nbytes: float, dtype: str = "float32") -> float:
        """Return the time of one operation, in seconds; arguments as in `GPU.seconds`."""
        return self.op_overhead + _roofline(self, flops, nbytes, dtype, self.compute_efficiency)

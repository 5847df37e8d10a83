"""``simgpu calibrate``: measure a GPU, and write a file that can stand where a preset's name can.

All times are taken on the host's clock, with the device idle at both ends. The rates are achieved
ones, so all efficiencies are 1. What takes a second GPU or process is not measured.
"""

import contextlib
import datetime
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import torch

from simgpu import list_gpus
from simgpu.backend.pinned import empty_pinned
from simgpu.clock import queries
from simgpu.clock.current import is_numeric
from simgpu.command_line import Parser
from simgpu.hardware import DTYPES, GPU, gpu_file
from simgpu.hardware.matmul_efficiency import matmul_efficiency
from simgpu.naming import is_simulated, split

SIZE = 4096  # rows of the square matrices that are multiplied
COPY_BYTES = 2**26  # of a copy; above 32 MiB, or the host's allocator recycles pages
NUM_TINY = 400  # tiny kernels; fewer than a CUDA queue holds (about 1000)
BLOCK = 0.05  # seconds between two looks at the clock
REPEATS = 7
_SOURCES = {
    "all": "measured (simgpu calibrate)",
    "collective_launch_overhead": "assumed (simgpu/hardware/assumptions.py)",
}


@dataclass(frozen=True)
class Target:
    """A device, what is known of it, how to wait for it, and a clock."""

    device: torch.device
    facts: dict  # name, memory and multiprocessors, as in `GPU`
    synchronize: Callable  # waits until the device is idle
    now: Callable  # the host's time, in seconds
    empty_pinned: Callable  # makes a host tensor of that many elements in page-locked memory

    def seconds(self, work, number=1, wait=True):
        """Return the mean time of `number` calls; if not `wait`, only until they are launched."""
        self.synchronize()
        start = self.now()
        for _ in range(number):
            work()
        if wait:
            self.synchronize()
        return (self.now() - start) / number

    def sample(self, work, number=None, wait=True):
        """Return `REPEATS` such times, by default of as many calls as take `BLOCK`."""
        self.seconds(work)  # loads kernels and allocates
        number = number or math.ceil(BLOCK / max(self.seconds(work), 1e-6))
        return [self.seconds(work, number, wait) for _ in range(REPEATS)]


def calibrate(device="cuda", output=None):
    """Measure an idle GPU, in less than a minute; return what the simulator needs to stand in.

    Parameters
    ----------
    device : torch.device or str
        A CUDA device; or a simulated GPU that computes no values, to get its own numbers back.
    output : str or path-like, optional
        A file to write, which ends in ``.json`` (`simgpu.hardware.gpu_file`).

    Returns
    -------
    gpu : GPU
        With the rates and overheads that were measured.
    measured : dict
        ``"copies"``, as fields of a `Link`; ``"seconds"`` of each measurement; date, versions.

    Raises
    ------
    ValueError
        If `device` is neither simulated nor a CUDA device that can be used.

    Examples
    --------
    >>> import simgpu as sim
    >>> (device,) = sim.configure(1, gpu="v100", numerics=False)
    >>> round(sim.calibrate(device)[0].memory_bandwidth / 1e9)
    720
    """
    target = _target(device)
    seconds = {**_products(target), **_overheads(target), **_transfers(target)}
    gpu, copies = _fit(target, {what: median(samples) for what, samples in seconds.items()})
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda}
    measured = {"date": datetime.date.today().isoformat(), **versions, "seconds": seconds}
    if output is not None:
        gpu_file.write(output, gpu, copies=copies, measured=measured)
    return gpu, measured | {"copies": copies}


def _target(device):
    if is_simulated(device) and not is_numeric():
        gpu, wait = queries.get_device_spec(device), partial(queries.synchronize, device)
        facts = dict(name=gpu.name, memory=gpu.memory, multiprocessors=gpu.multiprocessors)
        return Target(device, facts, wait, queries.now, empty_pinned)
    if split(device)[0] != "cuda" or not torch.cuda.is_available():
        raise ValueError(f"{device} is no CUDA device to measure here; {gpu_file.BY_HAND}")
    its, wait = torch.cuda.get_device_properties(device), partial(torch.cuda.synchronize, device)
    facts = dict(name=its.name, memory=its.total_memory, multiprocessors=its.multi_processor_count)
    return Target(device, facts, wait, time.perf_counter, partial(torch.empty, pin_memory=True))


def _products(target):
    """Multiply matrices of every type; what the device cannot multiply is left out."""
    x, found = torch.randn(SIZE, SIZE).to(target.device), {}  # zeros would draw less power
    with contextlib.ExitStack() as stack:
        stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        for dtype in DTYPES:
            torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
            y = x.to(torch.float32 if dtype == "tf32" else getattr(torch, dtype))
            with contextlib.suppress(RuntimeError):
                found[dtype] = target.sample(partial(torch.mm, y, y))
    return found


def _overheads(target):
    """Time the launches of tiny kernels on the host, and their execution on the device."""
    one, x = (torch.zeros(n, n, device=target.device) for n in (1, SIZE))
    tiny, product = partial(one.add_, 1), partial(torch.mm, x, x)
    launch = target.sample(tiny, NUM_TINY, wait=False)
    # After this many products, tiny kernels queue up: the device never waits for the host.
    num_products = math.ceil(4 * NUM_TINY * median(launch) / median(target.sample(product)))

    def run(num_tiny):
        for call in num_products * [product] + num_tiny * [tiny]:
            call()

    without, both = (target.sample(partial(run, n), number=1) for n in (0, NUM_TINY))
    return {"launch": launch, "kernel": [(t - median(without)) / NUM_TINY for t in both]}


def _transfers(target):
    """Time the device's memory, read and written at once, and copies between it and the host's."""
    num = COPY_BYTES // 4
    one, x, large = (torch.zeros(n, device=target.device) for n in (1, num, 8 * num))
    ordinary, pinned, one_pinned = torch.zeros(num), *map(target.empty_pinned, (num, 1))
    copy = partial(torch.Tensor.copy_, non_blocking=True)
    return {
        "memory": target.sample(partial(large.add_, 1)),
        "small copy": target.sample(partial(copy, one, one_pinned), number=1),
        "pinned to and fro": target.sample(lambda: (copy(x, pinned), copy(pinned, x))),
        "pageable to device": target.sample(partial(x.copy_, ordinary)),
        "pageable to host": target.sample(x.cpu),  # into fresh memory every time
    }


def _fit(target, seconds):
    """Return the GPU, and the fields of a `Link` for its copies, that would take these times."""
    launch, kernel = seconds["launch"], max(0.0, seconds["kernel"])
    latency = max(0.0, seconds["small copy"] - launch)  # launches are charged apart

    def rate(amount, what, overhead):
        return amount / max(seconds[what] - overhead, 1e-9)

    flops = {dtype: rate(2 * SIZE**3, dtype, kernel) for dtype in DTYPES if dtype in seconds}
    plain, count = flops["float32"], target.facts["multiprocessors"]
    share = matmul_efficiency(SIZE, SIZE, SIZE, 1, count, best=1.0) if count else 1.0
    # Up to 5 % above float32's there are no faster units, and shapes do not matter.
    flops = {d: f / share if f > 1.05 * plain else min(f, plain) for d, f in flops.items()}
    gpu = GPU(
        **target.facts, flops={d: flops.get(d, plain) for d in DTYPES},
        memory_bandwidth=rate(16 * COPY_BYTES, "memory", kernel), launch_overhead=launch,
        kernel_overhead=kernel, compute_efficiency=1.0, memory_efficiency=1.0,
        matmul_efficiency=1.0, sources=_SOURCES,
    )  # fmt: skip
    return gpu, {
        "bandwidth": rate(2 * COPY_BYTES, "pinned to and fro", 2 * latency),
        "pageable_bandwidth": rate(COPY_BYTES, "pageable to device", latency),
        "pageable_to_host": rate(COPY_BYTES, "pageable to host", latency),
        "latency": latency,
    }


def main(argv=None) -> int:
    """Measure a GPU, write the file and show it; return the exit code."""
    parser = Parser(prog="simgpu calibrate", description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0", help="the GPU (default: cuda:0)")
    parser.add_argument("--output", default="gpu.json", metavar="FILE", help="default: gpu.json")
    args = parser.parse_args(argv)
    if not (gpu_file.is_gpu_file(args.output) and Path(args.output).parent.is_dir()):
        parser.error(f"--output {args.output}: give a file that ends in .json, in a folder")
    try:
        calibrate(args.device, args.output)
    except ValueError as error:
        parser.error(str(error))
    return list_gpus.main([args.output])

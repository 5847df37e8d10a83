"""What a calibration times: launches, kernels, products and copies on one device.

The times are taken by `torch.utils.benchmark.Timer`, on a clock that waits for the device. What
depends on CUDA is in a small `Runtime`, so that the same code can be checked on simulated GPUs,
whose numbers are known.
"""

import math
import statistics
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch

BLOCK = 0.05  # seconds; short work is repeated for as long between two looks at the clock
SIZE = 4096  # rows of the square matrices that are multiplied
COPY_BYTES = 2**26  # of a large copy; above 32 MiB, or the host's allocator recycles pages
COUNT = 400  # tiny kernels; fewer than a CUDA queue holds (about 1000)
KINDS = {  # name in `DTYPES`: type of the tensors, what float32 products may be rounded to
    "float64": (torch.float64, "highest"),
    "float32": (torch.float32, "highest"),
    "tf32": (torch.float32, "high"),
    "bfloat16": (torch.bfloat16, "highest"),
    "float16": (torch.float16, "highest"),
}


@dataclass(frozen=True)
class Runtime:
    """What the measurements need from a device's runtime."""

    synchronize: Callable  # waits for the device
    clock: Callable  # the host's time, seconds
    event: Callable  # makes an event with `record`, `query` and `elapsed_time` (milliseconds)
    empty_pinned: Callable  # makes a host tensor of that many elements in page-locked memory

    def settled_clock(self):
        """Wait for the device; return the time."""
        self.synchronize()
        return self.clock()


def cuda_runtime(device):
    """Return the `Runtime` of a CUDA device."""
    return Runtime(
        synchronize=lambda: torch.cuda.synchronize(device),
        clock=time.perf_counter,
        event=lambda: torch.cuda.Event(enable_timing=True),
        # Not `Tensor.pin_memory`, which pins for PyTorch's current accelerator, whatever that is.
        empty_pinned=lambda count: torch.empty(count, pin_memory=True),
    )


@contextmanager
def float32_precision(precision):
    """Set what float32 products may be rounded to: "highest" nothing, "high" TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def measure(device, runtime, repeats, peer=None):
    """Run every measurement on `device`, which must be the current one.

    Parameters
    ----------
    device : torch.device
    runtime : Runtime
    repeats : int
        Repetitions of each.
    peer : torch.device, optional
        A device that `device` reaches directly.

    Returns
    -------
    list of dict
        ``what``, ``amount`` (operations, FLOPs or bytes), ``seconds`` (one value a repetition),
        their ``median`` and their ``spread`` (max - min, as a share of the median).
    """
    with torch.no_grad(), float32_precision("highest"):
        return [
            *_products(device, runtime, repeats),
            *_overheads(device, runtime, repeats),
            *_copies(device, runtime, repeats, peer),
        ]


def timings(work, clock, repeats, number=None, before="pass", **names):
    """Return `repeats` times of one `work()`, in seconds, after a warm-up.

    `number` calls are between two looks at `clock`, by default as many as take `BLOCK`; `before`
    is a statement on `names` that is run, not timed, before them.
    """
    from torch.utils.benchmark import Timer  # which loads much that only it needs

    timer = Timer("work()", before, globals={"work": work, **names}, timer=clock)
    number = number or math.ceil(BLOCK / timer.timeit(1).mean)
    return [timer.timeit(number).mean for _ in range(repeats)]


def _row(what, amount, seconds):
    median = statistics.median(seconds)
    spread = (max(seconds) - min(seconds)) / median
    return dict(what=what, amount=amount, seconds=seconds, median=median, spread=spread)


def _products(device, runtime, repeats):
    """Multiply matrices of every type; what the device cannot multiply is left out."""
    # Random numbers: on zeros a GPU draws less power, and runs at a higher clock.
    pair = [torch.randn(SIZE, SIZE).to(device) for _ in range(2)]
    for name, (dtype, precision) in KINDS.items():
        a, b = (x.to(dtype) for x in pair)
        with float32_precision(precision):
            try:
                torch.mm(a, b)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError:
                continue
            seconds = timings(partial(torch.mm, a, b), runtime.settled_clock, repeats)
        yield _row(f"product {name}", 2 * SIZE**3, seconds)


def _overheads(device, runtime, repeats):
    """Time the launches of tiny kernels on the host, and their execution on the device."""
    one, a = torch.zeros(1, device=device), torch.zeros(SIZE, SIZE, device=device)
    product = min(timings(partial(torch.mm, a, a), runtime.settled_clock, repeats))

    def tiny():
        for _ in range(COUNT):
            one.add_(1)

    launches = timings(
        tiny, runtime.clock, repeats, number=1, before="wait()", wait=runtime.synchronize
    )
    # Behind these products the tiny kernels queue up, so that the device never waits for the host.
    num_products = math.ceil(4 * max(launches) / product)

    def execution():
        start, end = runtime.event(), runtime.event()
        for _ in range(num_products):
            torch.mm(a, a)
        start.record()
        tiny()
        end.record()
        if start.query():
            raise RuntimeError("the host launches too slowly; calibrate while it is idle")
        runtime.synchronize()
        return start.elapsed_time(end) / 1e3

    execution()  # warm-up
    yield _row("launch", COUNT, launches)
    yield _row("kernel", COUNT, [execution() for _ in range(repeats)])


def _copies(device, runtime, repeats, peer):
    """Time reading and writing the device's memory, and copies from and to it."""
    x, large = (torch.zeros(k * COPY_BYTES // 4, device=device) for k in (1, 8))
    ordinary, pinned = torch.zeros(COPY_BYTES // 4), runtime.empty_pinned(COPY_BYTES // 4)
    small, small_pinned = x[:1].clone(), runtime.empty_pinned(1)

    def row(what, amount, work, number=None):
        return _row(what, amount, timings(work, runtime.settled_clock, repeats, number))

    yield row("memory", 16 * COPY_BYTES, lambda: large + 1)
    yield row("small copy", 4, lambda: small.copy_(small_pinned, non_blocking=True), number=1)
    yield row("pinned to device", COPY_BYTES, lambda: x.copy_(pinned, non_blocking=True))
    yield row("pinned to host", COPY_BYTES, lambda: pinned.copy_(x, non_blocking=True))
    yield row("pageable to device", COPY_BYTES, lambda: x.copy_(ordinary))
    # Into fresh memory every time, as `.cpu()` in a program does.
    yield row("pageable to host", COPY_BYTES, x.cpu)
    if peer is not None:
        y = torch.zeros(COPY_BYTES // 4, device=peer)
        yield row("peer", COPY_BYTES, lambda: y.copy_(x, non_blocking=True))

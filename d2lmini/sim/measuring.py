"""The stopwatch of a calibration: times of launches, kernels, products and copies on one device.

Everything that depends on CUDA is in a small `Runtime`; the measurements only need a device, events
and a clock, so that the same code can be checked on simulated GPUs, whose numbers are known.
"""

import datetime
import platform
import subprocess
import time
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch

_PRODUCTS = (
    ("float64", torch.float64, "highest"),
    ("float32", torch.float32, "highest"),
    ("tf32", torch.float32, "high"),
    ("bfloat16", torch.bfloat16, "highest"),
    ("float16", torch.float16, "highest"),
)


SLOW = 0.25  # seconds; of a dtype that takes longer for one product, larger ones are left out


@dataclass(frozen=True)
class Runtime:
    """What the measurements need from a device's runtime.

    Attributes
    ----------
    synchronize : callable
        Waits for the device.
    event : callable
        Returns an event with ``record()``, ``query()`` and ``elapsed_time(other)`` (milliseconds).
    clock : callable
        The host's time, seconds.
    pin : callable
        Returns a CPU tensor in page-locked memory.
    """

    synchronize: Callable
    event: Callable
    clock: Callable
    pin: Callable


def cuda_runtime(device):
    """Return the `Runtime` of a CUDA device."""
    return Runtime(
        synchronize=lambda: torch.cuda.synchronize(device),
        event=lambda: torch.cuda.Event(enable_timing=True),
        clock=time.perf_counter,
        pin=lambda tensor: tensor.pin_memory(),
    )


def measure(device, runtime, repeats, sizes=(2048, 4096, 8192), copy_bytes=2**26, count=400):
    """Run every measurement on `device`.

    Parameters
    ----------
    device : torch.device
    runtime : Runtime
    repeats : int
        Repetitions of each.
    sizes : tuple of int
        Rows of the square matrices that are multiplied.
    copy_bytes : int
        Size of the large copies; above 32 MiB, or the host's allocator recycles pages.
    count : int
        Tiny kernels in one measurement of overheads; fewer than a CUDA queue holds (about 1000).

    Returns
    -------
    list of dict
        ``what``, ``amount`` (operations, FLOPs or bytes), ``seconds`` (one value a repetition).
    """
    stopwatch = Stopwatch(runtime, repeats)
    on_device = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
    with on_device, torch.no_grad():
        return [
            *_overheads(stopwatch, device, sizes[0], count),
            *_products(stopwatch, device, sizes),
            _memory(stopwatch, device, 8 * copy_bytes),
            *_copies(stopwatch, device, copy_bytes),
            *_peer(stopwatch, device, copy_bytes),
        ]


class Stopwatch:
    """Repeated timings of a piece of work, after a warm-up."""

    def __init__(self, runtime, repeats):
        self.runtime, self.repeats = runtime, repeats

    def device(self, work, count=1):
        """Device seconds from the start of the first `work()` to the end of the last."""
        start, end = self.runtime.event(), self.runtime.event()
        start.record()
        for _ in range(count):
            work()
        end.record()
        self.runtime.synchronize()
        return start.elapsed_time(end) / 1e3

    def host(self, work, wait):
        """Host seconds that `work()` takes, until the device has finished if `wait`."""
        self.runtime.synchronize()
        begin = self.runtime.clock()
        work()
        if wait:
            self.runtime.synchronize()
        return self.runtime.clock() - begin

    def repeat(self, what, amount, sample):
        """Take `repeats` samples after two for warming up."""
        for _ in range(2):
            sample()
        return {
            "what": what,
            "amount": amount,
            "seconds": [sample() for _ in range(self.repeats)],
        }

    def many(self, what, amount, work):
        """Device seconds of one `work()`, from as many in a row as take about 50 ms."""
        work()
        count = min(max(int(0.05 / max(self.device(work), 1e-6)), 1), 200)
        return self.repeat(what, amount, lambda: self.device(work, count) / count)


def _overheads(stopwatch, device, size, count):
    """Time the launches of tiny kernels on the host, and their execution on the device."""
    one = torch.zeros(1, device=device)
    a = torch.zeros(2 * size, 2 * size, device=device)

    def tiny():
        for _ in range(count):
            one.add_(1)

    def in_a_full_queue(products=4):
        """Queue the kernels behind a long one, so that the device never waits for the host."""
        start, end = stopwatch.runtime.event(), stopwatch.runtime.event()
        for _ in range(products):
            torch.mm(a, a)
        start.record()
        tiny()
        end.record()
        host_was_late = start.query()
        stopwatch.runtime.synchronize()
        if host_was_late and products < 512:
            return in_a_full_queue(2 * products)
        return start.elapsed_time(end) / 1e3

    return [
        stopwatch.repeat("launch", count, lambda: stopwatch.host(tiny, wait=False)),
        stopwatch.repeat("kernel", count, in_a_full_queue),
    ]


def _products(stopwatch, device, sizes):
    """Multiply square matrices of every dtype; slow dtypes only at the small sizes."""
    rows, left_out = [], set()
    generator = torch.Generator().manual_seed(0)
    for size in sizes:
        # Random numbers: on zeros a GPU draws less power, and runs at a higher clock.
        pair = [torch.randn(size, size, generator=generator).to(device) for _ in range(2)]
        for name, dtype, precision in _PRODUCTS:
            if name in left_out:
                continue
            with _float32_precision(precision):
                row = _product(stopwatch, name, [x.to(dtype) for x in pair])
            if row is None or min(row["seconds"]) > SLOW:
                left_out.add(name)
            if row:
                rows.append(row)
    return rows


def _product(stopwatch, name, pair):
    """Time one product; None if the device has none of this dtype (the fit says so)."""
    size = len(pair[0])
    try:
        torch.mm(*pair)
    except torch.cuda.OutOfMemoryError:
        raise
    except RuntimeError:
        return None
    return stopwatch.many(f"product {name} {size}", 2 * size**3, lambda: torch.mm(*pair))


@contextmanager
def _float32_precision(precision):
    """Set what float32 products may be rounded to: "highest" nothing, "high" TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _memory(stopwatch, device, nbytes):
    """Add 1 to a large tensor: every byte is read once and written once."""
    source = torch.zeros(nbytes // 4, device=device)
    return stopwatch.many("memory", 2 * nbytes, lambda: source + 1)


def _copies(stopwatch, device, nbytes):
    on_device = torch.zeros(nbytes // 4, device=device)
    ordinary = torch.zeros(nbytes // 4)
    pinned = stopwatch.runtime.pin(torch.zeros(nbytes // 4))
    small, small_pinned = on_device[:1024].clone(), stopwatch.runtime.pin(torch.zeros(1024))

    def timed(work):
        return lambda: stopwatch.host(work, wait=True)

    return [
        stopwatch.repeat(
            "small copy", 4096, timed(lambda: small.copy_(small_pinned, non_blocking=True))
        ),
        stopwatch.many(
            "pinned to device", nbytes, lambda: on_device.copy_(pinned, non_blocking=True)
        ),
        stopwatch.many(
            "pinned to host", nbytes, lambda: pinned.copy_(on_device, non_blocking=True)
        ),
        stopwatch.repeat("pageable to device", nbytes, timed(lambda: on_device.copy_(ordinary))),
        # Into fresh memory every time, as `.cpu()` in a program does.
        stopwatch.repeat("pageable to host", nbytes, timed(on_device.cpu)),
    ]


def _peer(stopwatch, device, nbytes):
    """Copy to the first other GPU that can be reached directly, if there is one."""
    if device.type != "cuda":
        return []
    others = (i for i in range(torch.cuda.device_count()) if i != device.index)
    other = next((i for i in others if torch.cuda.can_device_access_peer(device, i)), None)
    if other is None:
        return []
    source = torch.zeros(nbytes // 4, device=device)
    target = torch.empty(nbytes // 4, device=f"cuda:{other}")
    return [stopwatch.many("peer", nbytes, lambda: target.copy_(source, non_blocking=True))]


def provenance(device, repeats):
    """Return what a reader needs to judge and repeat the measurements."""
    return {
        "hardware": torch.cuda.get_device_name(device),
        "driver": _driver(),
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "host": platform.processor() or platform.machine(),
        "date": datetime.date.today().isoformat(),
        "repeats": repeats,
    }


def _driver():
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown ({type(error).__name__} of nvidia-smi)"
    return result.stdout.splitlines()[0].strip() if result.stdout else "unknown"

"""Checkers for the exercises of the chapter on devices."""

from dataclasses import replace

import torch
from torch import nn

import simgpu as sim
from d2lmini.checks.shared import slow_machine
from d2lmini.checks.shared.results import number, tensor, whole_number
from d2lmini.checks.shared.solution import checker

# A launch takes equally long on all presets; on this GPU it takes longer, and memory limits most
# products.
SLOW_K80 = replace(sim.GPUS["k80"], name="slow k80", memory_bandwidth=12e9, launch_overhead=20e-6)
GPUS = sim.GPUS | {gpu.name: gpu for gpu in (SLOW_K80, slow_machine.GPU)}
USUAL_LAUNCH = sim.GPUS["k80"].launch_overhead

# The first is launch-bound, with kernels long enough to distinguish the usual mistakes; the last
# is memory-bound. The exercise says that there are five.
PRODUCTS = [
    ("v100", 256, 3),
    ("v100", 2000, 10),
    ("h100", 64, 1),
    ("t4", 900, 3),
    ("slow k80", 200, 3),
]


@checker("predict(gpu, n, count)")
def check_predict(predict, tolerance=0.01):
    """Check a function that predicts the time of a queue of matrix products.

    Parameters
    ----------
    predict : callable
        ``predict(gpu, n, count)`` returning the seconds from the first launch to the end of
        `count` products of two n x n float32 matrices on a `simgpu.GPU`.
    tolerance : float, default 0.01
        Largest allowed relative difference from the simulated time.

    Raises
    ------
    AssertionError
        If a prediction is wrong; the message says what seems to be missing.
    """
    for name, n, count in PRODUCTS:
        gpu = GPUS[name]
        where = f"{count} products of {n} x {n} on {name}"
        got = number(predict.at(where)(gpu, n, count), f"{where}: the time that predict returns")
        wanted = _time_products(gpu, n, count)
        assert abs(got - wanted) <= tolerance * wanted, (
            f"{where}: predicted {got * 1e6:.2f} microseconds, the simulated GPU takes "
            f"{wanted * 1e6:.2f}. {_explain_prediction(gpu, n, count, got, wanted, tolerance)}"
        )
    print("predict: passed")


def _time_products(gpu, n, count):
    """Run the products on a fresh machine, shapes only; return simulated seconds."""
    (device,) = sim.configure(1, gpu=gpu, numerics=False)
    A = torch.empty(n, n, device=device)
    sim.synchronize()
    start = sim.now()
    for _ in range(count):
        A @ A
    sim.synchronize()
    return sim.now() - start


def _queue(launch, kernel, count):
    """Return the seconds of `count` equal kernels in a stream, from the first launch on."""
    return launch + (count - 1) * max(kernel, launch) + kernel


def _explain_prediction(gpu, n, count, got, wanted, tolerance):
    """Return the known mistake that leads to `got`, or a general hint."""
    flops, num_bytes, launch = 2 * n**3, 3 * 4 * n**2, gpu.launch_overhead
    kernel, overhead = gpu.seconds(flops, num_bytes), gpu.kernel_overhead
    wrong_kernels = {
        "A kernel reaches the share compute_efficiency of the peak, not all of it.": (
            overhead + flops / gpu.flops["float32"]
        ),
        "A product of n x n matrices is n**3 multiplications and as many additions.": (
            gpu.seconds(flops / 2, num_bytes)
        ),
        "Every kernel takes kernel_overhead besides its work.": kernel - overhead,
        "A number in float32 has 4 bytes.": gpu.seconds(flops, num_bytes / 4),
        "A product reads two matrices and writes a third: count the bytes of all three.": (
            gpu.seconds(flops, num_bytes * 2 / 3)
        ),
        "Memory can limit a product, too: count the bytes that it reads and writes.": (
            gpu.seconds(flops, 0)
        ),
    }
    mistakes = {
        "The kernels alone take that long: the first cannot start before it was launched.": (
            count * kernel
        ),
        "Launching takes the host some time too, and short kernels wait for it.": (
            launch + count * kernel
        ),
        "The host does not wait for a kernel to end before it launches the next.": (
            count * (launch + kernel)
        ),
        "The last kernel still runs when the host has launched it.": count * launch,
        "After the last launch there is only the last kernel, however long a launch takes.": (
            launch + count * max(kernel, launch)
        ),
        "A launch takes gpu.launch_overhead, which is not the same on every GPU.": (
            _queue(USUAL_LAUNCH, kernel, count)
        ),
    } | {reason: _queue(launch, wrong, count) for reason, wrong in wrong_kernels.items()}
    hint = "Compare with the trace: which launch and which kernel are later than you expected?"
    return _named(mistakes, got, wanted, tolerance) or hint


def _named(mistakes, got, wanted, tolerance):
    """Return which mistake, of these or of units, leads to the time `got`, or None."""
    units = {
        "That is in milliseconds; return seconds.": 1e3 * wanted,
        "That is in microseconds; return seconds.": 1e6 * wanted,
    }
    close = (
        reason
        for reason, seconds in (mistakes | units).items()
        if abs(got - seconds) <= tolerance * seconds
    )
    return next(close, None)


# The last three are memory-bound, so that every byte counts; without those of the bias, the last
# two need a batch of one more. The others are compute-bound.
LAYERS = [
    ("v100", 256),
    ("h100", 512),
    ("t4", 128),
    ("k80", 512),
    ("rtx4090", 650),
    ("slow k80", 110),
]
LARGEST_BATCH = 10**5  # far above the right answers, which are below about 1,000


@checker("smallest_batch(gpu, width)")
def check_smallest_batch(smallest_batch):
    """Check a function that finds the smallest batch for which a dense layer is not launch-bound.

    Parameters
    ----------
    smallest_batch : callable
        ``smallest_batch(gpu, width)`` returning the smallest batch for which the forward kernel of
        ``nn.Linear(width, width)`` takes at least as long as its launch on the host.

    Raises
    ------
    AssertionError
        If the kernel is still shorter than its launch, or a smaller batch is enough.
    """
    for name, width in LAYERS:
        gpu = GPUS[name]
        where, launch = f"nn.Linear({width}, {width}) on {name}", gpu.launch_overhead
        batch = smallest_batch.at(where)(gpu, width)
        batch = whole_number(batch, f"{where}: the batch that smallest_batch returns")
        assert batch >= 1, f"{where}: a batch is an integer of 1 or more, got {batch}"
        assert batch <= LARGEST_BATCH, (
            f"{where}: batch {batch:.3g} is far from the smallest; are the units of time right?"
        )
        kernel = _time_layer(gpu, width, batch)
        assert kernel >= launch, (
            f"{where}: at batch {batch} the kernel takes {kernel * 1e6:.3f} microseconds, less "
            f"than its launch, {launch * 1e6:.3f}; the batch must be larger"
        )
        if batch > 1:
            kernel = _time_layer(gpu, width, batch - 1)
            assert kernel < launch, (
                f"{where}: batch {batch} is not the smallest; at {batch - 1} the kernel already "
                f"takes {kernel * 1e6:.3f} microseconds. {_explain_batch(gpu, width, batch)}"
            )
    print("smallest_batch: passed")


def _time_layer(gpu, width, batch):
    """Return the simulated seconds of the kernel of one dense layer, forward."""
    (device,) = sim.configure(1, gpu=gpu, numerics=False)
    layer = nn.Linear(width, width, device=device)
    X = torch.empty(batch, width, device=device)
    sim.reset()
    with torch.no_grad():
        layer(X)
    return sum(span.duration for span in sim.trace() if span.engine == "compute")


def _explain_batch(gpu, width, batch):
    """Return the known mistake that leads to a batch that is too large, or a general hint."""
    if batch == _smallest(gpu, width, flops_each=1):
        return (
            "Each weight is a multiplication and an addition for each example: "
            "2 * batch * width**2 FLOPs"
        )
    if batch == _smallest(gpu, width, biases=0):
        return "The bytes of the bias are missing: it has width numbers"
    return "Count the FLOPs, and the bytes of input, weights, bias and output"


def _smallest(gpu, width, flops_each=2, biases=1):
    """Return the smallest batch by a formula, which other than the defaults make a mistaken one."""
    batch = 1
    while (
        gpu.seconds(
            flops_each * batch * width**2, 4 * (width**2 + biases * width + 2 * batch * width)
        )
        < gpu.launch_overhead
    ):
        batch += 1
    return batch


@checker("program(devices)")
def check_slower_on_two(program):
    """Check a program that two devices make slower.

    Parameters
    ----------
    program : callable
        ``program(devices)`` returning a tensor; it is run on one and on two simulated GPUs.

    Raises
    ------
    AssertionError
        If the results differ, a device is idle, two devices do different work than one, or two are
        not slower than one.
    """
    one, two = (_run_on(program, k) for k in (1, 2))
    same_shape = one["result"].shape == two["result"].shape
    is_same = same_shape and torch.allclose(one["result"], two["result"], rtol=1e-4, atol=1e-6)
    assert is_same, "the program returns another result on two devices than on one"
    idle = {"sim:0", "sim:1"} - two["busy"]
    assert not idle, (
        f"{', '.join(sorted(idle))} has nothing to compute; use both devices, and matrix products: "
        "the work is counted in FLOPs, and only they have any"
    )
    assert two["flops"] <= 1.1 * one["flops"], (
        f"on two devices the program computes {two['flops']:,} FLOPs, on one {one['flops']:,}; "
        "it must be the same work"
    )
    assert two["seconds"] > one["seconds"], (
        f"two devices take {two['seconds'] * 1e6:.2f} microseconds, one takes "
        f"{one['seconds'] * 1e6:.2f}; make the devices exchange more, or compute less"
    )
    print("slower on two: passed")


def _run_on(program, k):
    """Run a program on k new simulated GPUs; return result, seconds, FLOPs and busy devices."""
    devices, where = sim.configure(k), f"on {k} device(s)"
    result = tensor(program.at(where)(devices), f"{where}: what the program returns")
    assert result.device.type != "meta", f"{where}: the result has no values; compute it on devices"
    sim.synchronize()
    kernels = [span for span in sim.trace() if span.engine == "compute"]
    return {
        "seconds": sim.now(),
        "flops": sum(span.flops for span in kernels),
        "busy": {span.device for span in kernels if span.flops},
        "result": result.detach().cpu().to(torch.complex128),  # whatever its dtype
    }


# The first two wait for launches, the next two are large; on the last a launch takes 1 µs, and
# arithmetic, if it counted, much longer than memory.
CHAINS = [
    ("a100", 1000, 3),
    ("a100", 1000, 40),
    ("h100", 10**7, 8),
    ("v100", 5 * 10**6, 2),
    (slow_machine.GPU.name, 10_000, 10),
]
CALL = 50e-6  # the host's seconds for a call of a graph, as the exercise says


@checker("chain(gpu, num_elements, count)")
def check_chain(chain, tolerance=0.01):
    """Check a function that predicts a chain of operations, eager and compiled.

    Parameters
    ----------
    chain : callable
        ``chain(gpu, num_elements, count)`` returning two times in seconds, eager and compiled, from
        the call to the end of the last kernel: `count` operations ``x + 1`` on float32 numbers.
    tolerance : float, default 0.01
        Largest allowed relative difference from the simulated time.

    Raises
    ------
    AssertionError
        If one of the times is wrong; the message says what seems to be missing.
    """
    for name, num_elements, count in CHAINS:
        gpu = GPUS[name]
        case = gpu, num_elements, count
        where = f"{count} operations on {num_elements:,} numbers, {name}"
        times = chain.at(where)(*case)
        is_pair = isinstance(times, list | tuple) and len(times) == 2
        assert is_pair, f"{where}: chain returns two times, eager and compiled, but got {times!r}"
        for kind, got in zip(("eager", "compiled"), times, strict=True):
            got = number(got, f"{where}: the {kind} time")
            wanted = _time_chain(*case, kind == "compiled")
            assert abs(got - wanted) <= tolerance * wanted, (
                f"{where}, {kind}: predicted {got * 1e6:.2f} microseconds, the simulated GPU takes "
                f"{wanted * 1e6:.2f}. {_explain_chain(kind, *case, got, wanted, tolerance)}"
            )
    print("chain: passed")


def _time_chain(gpu, num_elements, count, is_compiled):
    """Run the chain on a fresh machine, shapes only; return simulated seconds."""
    (device,) = sim.configure(1, gpu=gpu, numerics=False)

    def work(x):
        for _ in range(count):
            x = x + 1
        return x

    work, x = sim.compile(work) if is_compiled else work, torch.empty(num_elements, device=device)
    sim.synchronize()
    start = sim.now()
    work(x)
    sim.synchronize()
    return sim.now() - start


def _explain_chain(kind, gpu, num_elements, count, got, wanted, tolerance):
    """Return the known mistake that leads to a time, or a general hint."""
    explain = _eager_mistakes if kind == "eager" else _compiled_mistakes
    hint = "Count launches, kernels, and the bytes that each kernel moves."
    return _named(explain(gpu, num_elements, count), got, wanted, tolerance) or hint


def _eager_mistakes(gpu, num_elements, count):
    """Return the known mistakes of an eager chain, and the seconds that each leads to."""
    launch, kernel = gpu.launch_overhead, gpu.seconds(0, 8 * num_elements)
    wrong_kernels = {
        "Each kernel reads a number and writes one: 8 bytes.": gpu.seconds(0, 4 * num_elements),
        "gpu.seconds includes kernel_overhead: count it once.": kernel + gpu.kernel_overhead,
        "The FLOPs do not count here, only the bytes.": (
            gpu.seconds(num_elements, 8 * num_elements)
        ),
    }
    return {
        "Kernels that are shorter than a launch wait for theirs.": launch + count * kernel,
        "The host does not wait for a kernel to end before it launches the next.": (
            count * (launch + kernel)
        ),
        "The last kernel still runs when the host has launched it.": (
            _queue(launch, kernel, count) - kernel
        ),
        "That is the compiled time: return the eager one first, then the compiled one.": (
            CALL + launch + kernel
        ),
        "A launch takes gpu.launch_overhead, which is not the same on every GPU.": (
            _queue(USUAL_LAUNCH, kernel, count)
        ),
    } | {reason: _queue(launch, wrong, count) for reason, wrong in wrong_kernels.items()}


def _compiled_mistakes(gpu, num_elements, count):
    """Return the known mistakes of a compiled chain, and the seconds that each leads to."""
    launch, kernel = gpu.launch_overhead, gpu.seconds(0, 8 * num_elements)
    call = CALL + launch
    return {
        "The kernel reads a number and writes one: 8 bytes.": (
            call + gpu.seconds(0, 4 * num_elements)
        ),
        "The host's time for the call of the graph is missing.": launch + kernel,
        "The one kernel has to be launched, too.": CALL + kernel,
        "One kernel does it all.": call + count * kernel,
        "The kernel reads and writes each number once.": (
            call + gpu.seconds(0, 8 * count * num_elements)
        ),
        "There is one launch, since there is one kernel.": call + (count - 1) * launch + kernel,
        "The kernel still runs when the host has launched it.": call,
        "gpu.seconds includes kernel_overhead: count it once.": call + kernel + gpu.kernel_overhead,
        "A launch takes gpu.launch_overhead, which is not the same on every GPU.": (
            CALL + USUAL_LAUNCH + kernel
        ),
        "The FLOPs do not count here, only the bytes.": (
            call + gpu.seconds(count * num_elements, 8 * num_elements)
        ),
    }

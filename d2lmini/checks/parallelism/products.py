"""Checkers of many small products: on several streams, or in a few launches."""

import torch

import simgpu as sim
from d2lmini.checks.shared.results import tensor
from d2lmini.checks.shared.slow_machine import EPSILON, GPU, LINK, SIZE, close, matrices
from d2lmini.checks.shared.solution import checker


@checker("products_on_streams(x, count, num_streams)")
def check_products_on_streams(products_on_streams):
    """Check a function that distributes independent products over several streams.

    Parameters
    ----------
    products_on_streams : callable
        ``products_on_streams(x, count, num_streams)`` returning `count` products ``x @ x``.

    Raises
    ------
    AssertionError
        If a product or the number of streams is wrong, a stream does not wait for `x`, or the
        current stream does not wait for the results.

    Examples
    --------
    >>> check_products_on_streams(lambda x, k, streams: [x @ x] * k)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: 6 products on 3 streams: 1 were launched...
    """
    for count, num_streams in ((6, 3), (5, 2), (3, 1)):
        where = f"{count} products on {num_streams} streams"
        (device,) = sim.configure(1, gpu=GPU, link=LINK)
        host, buffer = sim.empty_pinned(SIZE, SIZE), sim.empty_pinned(SIZE, SIZE)
        host.copy_(matrices(1)[0])
        x = host.to(device, non_blocking=True)
        given = products_on_streams.at(where)
        ys = given.items(given(x, count, num_streams))
        assert len(ys) == count, f"{where}: {len(ys)} were returned"
        for y in ys:
            tensor(y, f"{where}: a product that is returned", x.shape, device)
        buffer.copy_(ys[-1], non_blocking=True)
        sim.synchronize()
        upload, *kernels, download = _of_device(sim.trace())
        kernels = [span for span in kernels if span.flops]
        assert len(kernels) == count, f"{where}: {len(kernels)} were launched"
        used = len({span.stream for span in kernels} - {0})
        assert used == num_streams, f"{where}: {used} new streams were used"
        assert min(span.start for span in kernels) >= upload.end - EPSILON, (
            f"{where}: a product started before x had arrived; let each new stream wait for the "
            "current one first: stream.wait_stream(main)"
        )
        assert download.start >= max(span.end for span in kernels) - EPSILON, (
            f"{where}: the current stream used a result before it was there; let it wait for the "
            "new streams at the end: main.wait_stream(stream)"
        )
        assert all(close(y.cpu(), host @ host) for y in ys), f"{where}: a product is wrong"
    print("products_on_streams: passed")


def _of_device(spans):
    return [span for span in spans if span.device != "host"]


@checker("square_all(xs)")
def check_square_all(square_all):
    """Check a function that multiplies many small matrices by themselves in a few launches.

    Parameters
    ----------
    square_all : callable
        ``square_all(xs)`` returning the list of products ``x @ x`` of the matrices in `xs`.

    Raises
    ------
    AssertionError
        If a product is wrong, or the number of launches grows with the number of matrices.

    Examples
    --------
    >>> check_square_all(lambda xs: [x @ x for x in xs])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: 40 matrices took 40 launches; put them into one tensor and multiply once...
    """
    for count, size in ((40, 16), (80, 8)):
        (device,) = sim.configure(1)
        generator = torch.Generator().manual_seed(count)
        host = torch.randn(count, size, size, generator=generator)
        xs = list(host.to(device).unbind())
        sim.synchronize()
        before = len(sim.trace())
        given = square_all.at(f"{count} matrices of {size} x {size}")
        ys = given.items(given(xs))
        launches = sum(span.engine == "launch" for span in sim.trace()[before:])
        assert len(ys) == count, f"{count} matrices gave {len(ys)} products"
        assert launches <= 8, (
            f"{count} matrices took {launches} launches; put them into one tensor and multiply once"
        )
        for y in ys:
            tensor(y, "a product that square_all returns", (size, size), device)
        right = all(close(y.cpu(), x @ x) for x, y in zip(host, ys, strict=True))
        assert right, f"{count} matrices of {size} x {size}: a product is wrong"
    print("square_all: passed")

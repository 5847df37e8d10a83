"""The matrix products inside an operation, which determine its FLOPs and its efficiency.

Each is ``(m, n, k, batch)``: `batch` products ``(m, k) @ (k, n)`` in one kernel. A convolution is
one whose matrices are never stored (*implicit*; NVIDIA, *Convolutional Layers User's Guide*, 2023):
its pixels are rows, its channels columns, and it sums over channels and filter.
"""

from math import prod

import torch

aten = torch.ops.aten


def _mm(args, out):
    (m, k), n = args[0].shape, args[1].shape[1]
    return ((m, n, k, 1),)


def _addmm(args, out):
    return _mm(args[1:], out)


def _bmm(args, out):
    (batch, m, k), n = args[0].shape, args[1].shape[2]
    return ((m, n, k, batch),)


def _baddbmm(args, out):
    return _bmm(args[1:], out)


def _convolution(args, out):
    data, weight, transposed, groups = args[0], args[1], args[6], args[8]
    pixels = data if transposed else out
    return (_forward(pixels, weight, transposed, groups),)


def _forward(pixels, weight, transposed, groups):
    """Return the product of a forward convolution, which has a row for each of `pixels`."""
    rows = pixels.shape[0] * prod(pixels.shape[2:])
    first, second, taps = weight.shape[0] // groups, weight.shape[1], prod(weight.shape[2:])
    if transposed:  # first: channels of the input; second: of the output
        return rows, second * taps, first, groups
    return rows, first, second * taps, groups


def _convolution_backward(args, out):
    grad, data, weight, transposed, groups, wanted = *args[:3], args[7], args[9], args[10]
    pixels = data if transposed else grad
    rows, columns, depth, _ = _forward(pixels, weight, transposed, groups)
    found = []
    if wanted[0]:
        taps = prod(weight.shape[2:])
        found.append(
            (rows, depth, columns, groups)
            if transposed
            else (rows, depth // taps, columns * taps, groups)
        )
    if wanted[1]:
        found.append((columns, depth, rows, groups))
    return tuple(found)


PRODUCTS = {
    aten.mm: _mm,
    aten.addmm: _addmm,
    aten.bmm: _bmm,
    aten.baddbmm: _baddbmm,
    aten.convolution: _convolution,
    aten.convolution_backward: _convolution_backward,
}  # operation -> function of arguments and result


def flops(products) -> int:
    """Return the FLOPs of products; a multiplication and an addition are two."""
    return sum(2 * m * n * k * batch for m, n, k, batch in products)

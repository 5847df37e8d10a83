"""The matrix products inside an operation, which determine its FLOPs and its efficiency.

Each is ``(m, n, k, batch)``: `batch` products ``(m, k) @ (k, n)`` in one kernel, and True behind it
if a matrix has rows of an odd number of 16-bit elements. A convolution is
one whose matrices are never stored (*implicit*; NVIDIA, *Convolutional Layers User's Guide*, 2023):
its pixels are rows, its channels columns, and it sums over channels and filter.

Each function takes the arguments of an operation and its result; ``table.py`` says which operation
has which.
"""

from math import prod


def mm(args, out):
    """Return the product of two matrices."""
    (m, k), n = args[0].shape, args[1].shape[1]
    return ((m, n, k, 1, *_odd(*args[:2], out)),)


def _odd(*matrices):
    """Return ``(True,)`` if one of the matrices has rows of an odd number of 16-bit elements."""
    odd = any(max(x.stride()[-2:]) % 2 and x.element_size() == 2 for x in matrices)
    return (True,) if odd else ()


def addmm(args, out):
    """Return the product of two matrices to which a third one is added."""
    return mm(args[1:], out)


def bmm(args, out):
    """Return the products of a batch of matrices."""
    (batch, m, k), n = args[0].shape, args[1].shape[2]
    return ((m, n, k, batch, *_odd(*args[:2], out)),)


def baddbmm(args, out):
    """Return the products of a batch of matrices to which others are added."""
    return bmm(args[1:], out)


def grouped_mm(args, out):
    """Return the products of groups of rows, as the experts of a layer compute them.

    How large each group is, only the values of the offsets say, which may not be there: the groups
    are taken to be as equal as possible. The sum of their FLOPs does not depend on it.
    """
    a, b = args[:2]
    if a.dim() == b.dim() == 3:
        return bmm(args, out)
    groups = next(t.shape[0] for t in (a, b, out) if t.dim() == 3)
    if b.dim() == 3:  # rows of `a` in groups
        return _in_groups(a.shape[0], groups, lambda m: (m, b.shape[2], a.shape[1]))
    if a.dim() == 3:  # columns of `b`
        return _in_groups(b.shape[1], groups, lambda n: (a.shape[1], n, a.shape[2]))
    return _in_groups(a.shape[1], groups, lambda k: (a.shape[0], b.shape[1], k))


def _in_groups(length, groups, shape):
    size, longer = divmod(length, groups)
    parts = (size, groups - longer), (size + 1, longer)
    return tuple((*shape(side), count) for side, count in parts if side and count)


def convolution(args, out):
    """Return the product that a convolution is."""
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


def convolution_backward(args, out):
    """Return the products that give the gradients of a convolution's data and weights."""
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


def int8_weights(args, out):
    """Return the product with the transpose of a matrix of weights."""
    (m, k), n = args[0].shape, args[1].shape[0]
    return ((m, n, k, 1),)


def int4_weights(args, out):
    """Return the product with a matrix of weights of which a byte packs two."""
    (m, k), n = args[0].shape, out.shape[1]
    return ((m, n, k, 1),)


def flops(products) -> int:
    """Return the FLOPs of products; a multiplication and an addition are two."""
    # While torch.jit.trace records, sizes are tensors.
    return int(sum(2 * m * n * k * batch for m, n, k, batch, *_ in products))

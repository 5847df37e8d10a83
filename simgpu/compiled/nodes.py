"""What an operation is to a compiler: pointwise, a sum of rows or columns, or a kernel of its own.

Which of these follows from the kind of its kernel in ``simgpu/kernels/table.py``. Kernels of eager
PyTorch that do several things, such as norms, are taken apart as Inductor takes them apart.
"""

import math
from dataclasses import dataclass, replace

from simgpu.compiled.entries import Seen, seen_in
from simgpu.kernels import table

# Kinds of nodes and of kernels.
POINTWISE, ROWS, COLUMNS, SCATTER, EXTERN = "pointwise", "rows", "columns", "scatter", "extern"
AGAIN = "recomputed"  # the name of what a backward pass computes again
ZEROS = "zeros"  # the name of what eager PyTorch fills before a backward pass
SEPARATE = "separate"  # a kernel whose operands are written before

_FUSED = {table.POINTWISE, table.COPY, table.FILL, table.DRAW, table.GATHER}
# Pointwise to a compiler, though eager PyTorch has a kernel of another kind for it.
_POINTWISE = {
    "slice_backward", "select_backward", "tril", "triu", "masked_fill", "native_dropout", "arange",
    "zeros", "ones", "full", "scalar_tensor", "eye", "linspace", "avg_pool2d", "nll_loss_backward",
    "nll_loss2d_backward",
    "avg_pool2d_backward", "upsample_nearest2d", "upsample_nearest2d_backward", "repeat_interleave",
    "split_with_sizes_copy", "native_dropout_backward", "expand_copy", "view_copy", "rsub",
    "one_hot", "pixel_shuffle", "diagonal_copy", "unfold_backward", "glu_backward",
    "_adaptive_avg_pool2d",
}  # fmt: skip
_SUMS = {
    "sum", "mean", "amax", "amin", "max", "min", "var", "var_mean", "std", "std_mean", "prod",
    "any", "all", "argmax", "argmin", "linalg_vector_norm", "norm", "logsumexp", "cumsum",
    "count_nonzero",
}  # fmt: skip
_WRITTEN_OUT = {"sum", "mean", "amax", "amin", "prod", "any", "all"}
FEW = 8  # Inductor writes out sums of fewer elements (``config.unroll_reductions_threshold``)
_RANDOM = {"rand", "randn", "randint", "randperm", "normal"}


@dataclass(frozen=True)
class Node:
    """One step of a region.

    Attributes
    ----------
    kind : str
        One of the kinds above.
    name : str
        Of the operation.
    n : int
        How many elements it visits.
    rows : int
        Of a sum: how many results it has.
    reads : tuple of tuple of int
        For each: the value, bytes, and which part of it: where it begins, -1 if it is all.
    writes : tuple of tuple of int
        Pairs ``(value, bytes)``.
    entry : int
        The number of its entry on the tape.
    once : bool
        Whether it is done once and writes its result: it draws random numbers, or what it writes
        is then written to.
    width : int
        How many tensors each of its lists has: those of ``_foreach_add``.
    """

    kind: str
    name: str
    n: int
    rows: int
    reads: tuple
    writes: tuple
    entry: int
    once: bool = False
    width: int = 1


# Operations whose backward pass needs none of their inputs, or what `_Maker.enough` says.
_KEEP_NO_INPUT = {
    "add", "sub", "neg", "cat", "stack", "clone", "copy", "_to_copy", "sum", "mean", "relu",
    "native_layer_norm", "_fused_rms_norm", "native_dropout", "max_pool2d_with_indices",
}  # fmt: skip


def _name(op):
    return op if type(op) is str else op.name if op else AGAIN


class _Maker:
    """Makes the nodes of one entry.

    Attributes
    ----------
    sizes : list of int
        Bytes of each value; temporary values are added.
    nodes : list of Node
    enough : dict
        Of a value that eager autograd keeps: another one that the backward pass needs in its place,
        None if it needs nothing.
    """

    def __init__(self, sizes):
        self.sizes, self.nodes, self.enough = sizes, [], {}

    def temporary(self, num_bytes):
        """Return a value that only nodes of one entry share, with its bytes."""
        self.sizes.append(num_bytes)
        return len(self.sizes) - 1, num_bytes

    def add(self, kind, n, rows, reads, writes, once=False, width=1):
        """Add a node; `reads` and `writes` may hold None, and each `Seen` stands for its bytes."""
        reads = tuple([self._read(x) for x in reads if x is not None])
        writes = tuple([x[:2] for x in writes if x is not None])
        node = Node(kind, self.name, n, rows, reads, writes, self.number, once, width)
        self.nodes.append(node)

    def _read(self, x):
        """Return value, bytes and part of a `Seen`, or of a pair of value and bytes."""
        whole = type(x) is not Seen or x.bytes >= self.sizes[x.value]
        return (*x[:2], -1 if whole else x.offset)

    def add_entry(self, number, entry):
        """Add the nodes of one entry."""
        op = entry.op
        self.number, self.name = number, _name(op)
        if not (entry.alone or any(entry.outs)):  # all results are empty
            return
        if entry.alone:
            self.add(EXTERN, 1, 1, seen_in(entry.args), entry.outs)
        elif op is None or type(op) is str:
            n = sum(o.numel() for o in entry.outs if o)
            self.add(POINTWISE, n, n, entry.args, entry.outs, self.name in _RANDOM)
        elif self.name in _APART:
            in_place = op.mutable and entry.outs[0] is None  # it returns its argument
            outs = [o for o in entry.outs if o] if in_place else entry.outs
            _APART[self.name](self, entry.args, outs)
        elif op.mutable:
            self._add_change(entry)
        else:
            self._add_plain(entry)

    def _add_change(self, entry):
        """Add an operation that writes into memory that exists: the rest of it stays as it was."""
        kernel = entry.op.kernel
        reads, outs = seen_in((entry.args, entry.kwargs)), [o for o in entry.outs if o]
        if kernel.bytes is table.traffic.written or self.name == "copy":
            reads = [x for x in reads if x is not entry.args[0]]
        n = sum(o.numel() for o in outs)
        fused = kernel.kind in _FUSED and not entry.op.name.startswith("_fused")
        kind = POINTWISE if fused else SCATTER if kernel.kind == table.SCATTER else EXTERN
        width = len(outs) if entry.op.foreach else 1
        self.add(kind, n, n, reads, outs, kernel.kind == table.DRAW, width)

    def _add_plain(self, entry):
        op, outs = entry.op, [o for o in entry.outs if o is not None]
        reads = seen_in((entry.args, entry.kwargs))
        if self.name in _SUMS:
            self._add_sum(entry, reads, outs)
        elif self.name in _POINTWISE or op.kernel.kind in _FUSED:
            width = len(outs) if op.foreach else 1
            n = sum(o.numel() for o in outs) if op.foreach else max(o.numel() for o in outs)
            if op.kernel.kind == table.GATHER:
                reads[0] = reads[0].value, min(reads[0].bytes, outs[0].bytes)
            if op.kernel.bytes is table.traffic.written or op.name.startswith("new_"):
                reads = []
            self.add(POINTWISE, n, n, reads, outs, op.kernel.kind == table.DRAW, width)
        elif op.kernel.kind == table.SCATTER:
            self.add_scatter(reads[:1], reads[1:], outs[0], outs[0].bytes)
        else:
            self.add(EXTERN, 1, 1, reads, outs)

    def add_scatter(self, start, reads, out, num_bytes):
        """Add what fills a buffer, from `start` or with zeros, and then adds to parts of it."""
        whole, n = self.temporary(num_bytes), reads[-1].numel()
        kind = SEPARATE if start else POINTWISE
        self.add(kind, out.numel(), out.numel(), start, [whole], once=True)
        touched = min(num_bytes, n * num_bytes // max(1, out.numel()))
        self.add(SCATTER, n, n, [*reads, (whole[0], touched)], [(out.value, touched)])

    def _add_sum(self, entry, reads, outs):
        x, n = reads[0], outs[0].numel()
        if self.name in _WRITTEN_OUT and x.numel() < FEW * n:
            self.add(POINTWISE, n, n, reads, outs)
        else:
            self.add(_direction(x, entry.args[1:]), x.numel(), n, reads, outs)


def _direction(x, args):
    """Return whether rows, along the innermost dimension, or columns are summed."""
    dims = args[0] if args else None
    dims = (dims,) if type(dims) is int else dims if isinstance(dims, tuple) else ()
    dims = {d % len(x.shape) for d in dims if type(d) is int} if x.shape else set()
    wide = [d for d in range(len(x.shape)) if x.shape[d] > 1]
    inner = min(wide, key=lambda d: x.strides[d] or math.inf, default=0)
    return ROWS if inner in dims and not dims >= set(wide) else COLUMNS


# Each takes the maker, and the arguments and results of an operation of eager PyTorch.
def _norm(make, args, outs):
    x, rows = args[0], math.prod(args[0].shape[: -len(args[1])])
    n, weights = x.numel(), seen_in(args[2:])
    means = outs[1:-1]
    normal = make.temporary(4 * n)  # x without its mean and scale, in float32
    make.add(ROWS, n, rows, [x], outs[1:])
    make.add(POINTWISE, n, n, [x, *outs[1:]], [normal])
    make.add(POINTWISE, n, n, [normal, *weights], outs[:1])
    make.enough[x.value] = normal[0]
    make.enough.update((mean.value, None) for mean in means)


def _norm_backward(make, args, outs):
    grad, x, *rest = seen_in(args)
    n, rows = x.numel(), math.prod(x.shape[: -len(args[2])])
    stats = [t for t in rest if len(t.shape) == len(x.shape)]
    weights = [t for t in rest if len(t.shape) != len(x.shape)]
    if outs[0] is not None:
        sums = make.temporary(8 * rows)
        make.add(ROWS, n, rows, [grad, x, *stats, *weights], [sums])
        make.add(POINTWISE, n, n, [grad, x, sums, *stats, *weights], outs[:1])
    for out in outs[1:]:
        if out is not None:
            make.add(COLUMNS, n, n // rows, [grad, x, *stats], [out])


def _group_norm(make, args, outs):
    x, groups = args[0], args[6]
    n, weights = x.numel(), seen_in(args[1:3])
    make.add(ROWS, n, x.shape[0] * groups, [x], outs[1:])
    make.add(POINTWISE, n, n, [x, *outs[1:], *weights], outs[:1])


def _group_norm_backward(make, args, outs):
    grad, x, mean, rstd = args[:4]
    n, planes = x.numel(), x.shape[0] * x.shape[1]
    sums = make.temporary(8 * planes)
    make.add(ROWS, n, planes, [grad, x], [sums])
    if outs[0] is not None:
        make.add(POINTWISE, n, n, [grad, x, mean, rstd, sums, *seen_in(args[4:5])], outs[:1])
    if any(outs[1:]):
        make.add(COLUMNS, planes, x.shape[1], [sums, mean, rstd], outs[1:])


def _softmax(make, args, outs):
    x, n = args[0], args[0].numel()
    rows = n // max(1, x.shape[args[1]])
    sums = make.temporary(8 * rows)
    make.add(_direction(x, args[1:]) if len(x.shape) > 1 else ROWS, n, rows, [x], [sums])
    make.add(POINTWISE, n, n, [x, sums], outs)


def _softmax_backward(make, args, outs):
    grad, y, dim = args[:3]
    n, rows = grad.numel(), grad.numel() // max(1, grad.shape[dim])
    sums = make.temporary(4 * rows)
    make.add(_direction(y, (dim,)) if len(y.shape) > 1 else ROWS, n, rows, [grad, y], [sums])
    make.add(POINTWISE, n, n, [grad, y, sums], outs)


def _nll_loss(make, args, outs):
    x, target = args[:2]
    picked = x.value, target.numel() * x.itemsize
    make.add(COLUMNS, target.numel(), 1, [picked, target], outs)


def _nll_loss_backward(make, args, outs):
    grad, x, target = args[:3]
    make.add(POINTWISE, x.numel(), x.numel(), [grad, target, *seen_in(args[6:])], outs)


def _batch_norm(make, args, outs):
    x, channels = args[0], args[0].shape[1]
    n, weights = x.numel(), seen_in(args[1:5])
    stats = [o for o in outs[1:] if o is not None and o.bytes]
    if any(a is True for a in args) or make.name == "_batch_norm_with_update":
        make.add(COLUMNS, n, channels, [x], stats)
    make.add(POINTWISE, n, n, [x, *stats, *weights], outs[:1])


def _batch_norm_backward(make, args, outs):
    grad, x = args[:2]
    n, channels = x.numel(), x.shape[1]
    rest = [t for t in seen_in(args[2:]) if t.numel() == channels]
    sums = make.temporary(8 * channels)
    make.add(COLUMNS, n, channels, [grad, x, *rest], [sums, *outs[1:]])
    if outs[0] is not None:
        make.add(POINTWISE, n, n, [grad, x, sums, *rest], outs[:1])


def _embedding_backward(make, args, outs):
    grad, indices = args[:2]
    make.add_scatter((), [indices, grad], outs[0], 4 * outs[0].numel())


def _relu(make, args, outs):
    n, mask = args[0].numel(), make.temporary(args[0].numel())
    make.add(POINTWISE, n, n, args[:1], outs)
    make.add(POINTWISE, n, n, outs, [mask])
    make.enough[outs[0].value] = mask[0]


def _max_pool(make, args, outs):
    out, indices = outs
    n = out.numel()
    make.sizes[indices.value] = n  # in Inductor, places inside the window, of 8 bits
    make.add(SEPARATE, n, n, args[:1], [out, (indices.value, n)])


def _max_pool_backward(make, args, outs):
    grad, indices = args[0], args[-1]
    sums = make.temporary(4 * outs[0].numel())
    make.add_scatter(
        (), [(indices.value, grad.numel()), grad], outs[0]._replace(value=sums[0]), sums[1]
    )
    make.add(POINTWISE, outs[0].numel(), outs[0].numel(), [sums], outs)


_APART = {
    "native_layer_norm": _norm, "_fused_rms_norm": _norm,
    "native_layer_norm_backward": _norm_backward, "_fused_rms_norm_backward": _norm_backward,
    "native_group_norm": _group_norm, "native_group_norm_backward": _group_norm_backward,
    "_softmax": _softmax, "_log_softmax": _softmax,
    "_softmax_backward_data": _softmax_backward, "_log_softmax_backward_data": _softmax_backward,
    "nll_loss_forward": _nll_loss, "nll_loss2d_forward": _nll_loss,
    "nll_loss_backward": _nll_loss_backward, "nll_loss2d_backward": _nll_loss_backward,
    "native_batch_norm": _batch_norm, "_native_batch_norm_legit": _batch_norm,
    "_batch_norm_with_update": _batch_norm, "native_batch_norm_backward": _batch_norm_backward,
    "embedding_dense_backward": _embedding_backward, "relu": _relu,
    "max_pool2d_with_indices": _max_pool,
    "max_pool2d_with_indices_backward": _max_pool_backward,
}  # fmt: skip


def nodes_of(entries, sizes) -> tuple:
    """Return the nodes of the entries of a tape, and what is enough for a backward pass.

    The second is the `enough` of `_Maker`, without values of which other operations that keep them
    need all.

    Parameters
    ----------
    entries : sequence of Entry
    sizes : list of int
        Bytes of each value; those of temporary values are appended.
    """
    make = _Maker(sizes)
    for number, entry in enumerate(entries):
        make.add_entry(number, entry)
    kept_whole = {
        x.value
        for entry in entries
        if _name(entry.op) not in _KEEP_NO_INPUT
        for x in seen_in((entry.args, entry.kwargs))
    }
    return make.nodes, {v: e for v, e in make.enough.items() if v not in kept_whole}


def with_unused(nodes, sizes, unused) -> list:
    """Return the nodes of a backward pass with the gradients of results that nobody has used.

    AOTAutograd makes zeros of these, and its graph adds them.

    Parameters
    ----------
    nodes : list of Node
    sizes : list of int
        Bytes of each value; those of zeros and sums are appended.
    unused : set of int
        The values that are the gradients of such results.
    """
    for gradient in sorted(unused):
        place, made = next(
            (i, node) for i, node in enumerate(nodes) if gradient in dict(node.writes)
        )
        size = sizes[gradient]
        zeros, total = len(sizes), len(sizes) + 1
        sizes += [size, size]
        both = (gradient, size, -1), (zeros, size, -1)
        fill = Node(EXTERN, ZEROS, made.n, made.n, (), ((zeros, size),), -1)
        add = Node(POINTWISE, "add", made.n, made.n, both, ((total, size),), made.entry)
        later = [
            replace(node, reads=tuple([
                (total, *read[1:]) if read[0] == gradient else read for read in node.reads
            ]))
            for node in nodes[place + 1 :]
        ]  # fmt: skip
        nodes = [fill, *nodes[: place + 1], add, *later]
    return nodes


def with_parts(nodes, before) -> tuple:
    """Return the nodes, where a write to a part of some memory needs what is in the other parts.

    The second is the set of values of which other parts are written later, so that they have to be
    written, too.

    Parameters
    ----------
    nodes : list of Node
    before : dict
        Of each value that such a write makes: the value that the memory held before.
    """
    made = {v for node in nodes for v, _ in node.writes}
    before = {v: old for v, old in before.items() if old in made}
    needed = ([(before[v], 0, -1) for v, _ in node.writes if v in before] for node in nodes)
    nodes = [
        replace(node, reads=(*node.reads, *more)) if more else node
        for node, more in zip(nodes, needed, strict=True)
    ]
    return nodes, set(before.values())

"""Tensor and sequence parallelism: products whose weights are split over a group's ranks."""

import torch
import torch.distributed as dist


def gather(x, group):
    """Start an all-gather of parts of the sequence; return result and work."""
    size = dist.get_world_size(group)
    out = x.new_empty((size * x.shape[0], *x.shape[1:]))
    return out, dist.all_gather_into_tensor(out, x.contiguous(), group=group, async_op=True)


def scatter(x, group):
    """Start a reduce-scatter over parts of the sequence; return result and work."""
    size = dist.get_world_size(group)
    out = x.new_empty((x.shape[0] // size, *x.shape[1:]))
    return out, dist.reduce_scatter_tensor(out, x.contiguous(), group=group, async_op=True)


def _reduce(x, group):
    x = x.contiguous()
    return x, dist.all_reduce(x, group=group, async_op=True)


class _Column(torch.autograd.Function):
    """Product with a slice of the columns; the input is whole, or a part of the sequence."""

    @staticmethod
    def forward(ctx, x, weight, bias, split):
        ctx.save_for_backward(x, weight)
        ctx.split = split
        if split.sequence:
            x, work = gather(x, split.group)
            work.wait()
        return split.products.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, grad):
        (x, weight), split = ctx.saved_tensors, ctx.split
        if split.sequence:
            x, work = gather(x, split.group)
            if not split.overlap:
                work.wait()
        back = split.products.multiply(grad, weight)
        if split.sequence and split.overlap:
            work.wait()
        back, work = (scatter if split.sequence else _reduce)(back, split.group)
        if not split.overlap:
            work.wait()
        rows, columns = grad.reshape(-1, grad.shape[-1]), x.reshape(-1, x.shape[-1])
        of_weight = split.products.multiply(rows.t(), columns)
        of_bias = rows.sum(0) if ctx.needs_input_grad[2] else None
        if split.overlap:
            work.wait()
        return back, of_weight, of_bias, None


class _Leave(torch.autograd.Function):
    """Sum the results of products with slices of the rows."""

    @staticmethod
    def forward(ctx, x, split):
        ctx.split = split
        x, work = (scatter if split.sequence else _reduce)(x, split.group)
        work.wait()
        return x

    @staticmethod
    def backward(ctx, grad):
        if ctx.split.sequence:
            grad, work = gather(grad, ctx.split.group)
            work.wait()
        return grad, None


class _Enter(torch.autograd.Function):
    """The input of products with slices of the columns: whole, or gathered."""

    @staticmethod
    def forward(ctx, x, split):
        ctx.split = split
        if not split.sequence:
            return x.view_as(x)
        x, work = gather(x, split.group)
        work.wait()
        return x

    @staticmethod
    def backward(ctx, grad):
        grad, work = (scatter if ctx.split.sequence else _reduce)(grad, ctx.split.group)
        work.wait()
        return grad, None


class Split:
    """The group over which weights are split, and how.

    Parameters
    ----------
    products : products.Products
    group : ProcessGroup, optional
        None: nothing is split.
    sequence : bool
        What is outside the products is split by parts of the sequence.
    overlap : bool
        Communication of the backward pass runs behind the weights' gradients.
    """

    def __init__(self, products, group=None, sequence=False, overlap=True):
        self.products, self.group, self.overlap = products, group, overlap
        self.size = dist.get_world_size(group) if group is not None else 1
        self.sequence = sequence and self.size > 1

    def column(self, x, weight, bias=None):
        """Multiply by this rank's columns, and add its bias; x is (sequence, batch, hidden)."""
        if self.size == 1:
            return self.products.linear(x, weight, bias)
        return _Column.apply(x, weight, bias, self)

    def row(self, x, weight, bias=None):
        """Multiply by this rank's rows, and sum over the ranks.

        Return the result, and the bias if it is still to be added: that of a sum over ranks.
        """
        if self.size == 1:
            return self.products.linear(x, weight, bias), None
        return self.leave(self.products.linear(x, weight)), bias

    def enter(self, x):
        """Make x whole for products of any kind; backward its gradient is summed or scattered."""
        return x if self.size == 1 else _Enter.apply(x, self)

    def leave(self, x):
        """Sum over the ranks; with sequence parallelism each keeps its part."""
        return x if self.size == 1 else _Leave.apply(x, self)

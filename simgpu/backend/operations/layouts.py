"""The layout that the CPU's kernels give their results, for machines that keep shapes only.

Without values, PyTorch's meta kernels compute the shapes of results. For some operations they
differ from the CPU's kernels: in strides, in the dtype of saved statistics, in the size of the
storage. Later operations may then copy where others do not. The rules below correct these results,
so that the clock and the bytes are the same with and without values.

The remaining differences (listed in `tests/simgpu/backend/test_op_samples.py`) are strides: of
Fourier transforms over several dimensions and of 3D convolutions (their layout depends on the
library that PyTorch was built with), of dimensions with one element, and of empty tensors.
"""

import math

import torch

from simgpu.kernels.facts import aten

_META = torch.device("meta")
_SMALL_FLOATS = (torch.float16, torch.bfloat16)
_rules: dict = {}  # overload packet of aten -> function that corrects its result


def as_on_cpu(op, inner, out):
    """Return `out`, the result of an operation on meta tensors, as its CPU kernel lays it out."""
    rule = _rules.get(op.func.overloadpacket)
    if rule is None:
        return _mixed(op, inner, out) if torch.Tag.pointwise in op.func.tags else out
    names = (argument.name for argument in op.func._schema.arguments)
    return rule(out, **dict(zip(names, inner[0], strict=False)), **inner[1])


def _for(*packets):
    def register(rule):
        _rules.update(dict.fromkeys(packets, rule))
        return rule

    return register


def _empty(shape, dtype, num_elements=None):
    """Return a contiguous meta tensor, in a storage of at least `num_elements`."""
    if num_elements is None or num_elements <= math.prod(shape):
        return torch.empty(shape, dtype=dtype, device=_META)
    return torch.empty(num_elements, dtype=dtype, device=_META)[: math.prod(shape)].view(shape)


def _contiguous(out):
    return _empty(out.shape, out.dtype)


def _format(*tensors):
    """Return the first memory format but contiguous that a tensor suggests, else contiguous."""
    formats = map(torch._prims_common.suggest_memory_format, tensors)
    return next((f for f in formats if f is not torch.contiguous_format), torch.contiguous_format)


def _in_format(out, *tensors):
    return _contiguous(out).to(memory_format=_format(*tensors))


def _iterated(out, *operands):
    """Return `out` with the strides of an elementwise kernel over the operands."""
    same_type = [torch.empty_strided(t.shape, t.stride(), device=_META) for t in operands]
    same_type = [t.to(torch.float32) for t in same_type]
    strides = torch.add(*same_type).stride()
    return torch.empty_strided(out.shape, strides, dtype=out.dtype, device=_META)


def _mixed(op, inner, out):
    """Correct PyTorch's rule for 16-bit and mixed dtypes, which copies expanded operands first."""
    tensors = [t for t in inner[0] if isinstance(t, torch.Tensor)]
    if op.mutable or len(tensors) != 2 or not isinstance(out, torch.Tensor):
        return out
    same = tensors[0].dtype == tensors[1].dtype
    if (same and out.dtype not in _SMALL_FLOATS) or not all(t.dim() for t in tensors):
        return out
    return _iterated(out, *tensors)


@_for(
    aten.mse_loss_backward, aten.smooth_l1_loss_backward, aten.huber_loss_backward,
    aten._log_softmax_backward_data, aten.glu_backward, aten.nonzero_static,
)  # fmt: skip
def _always_contiguous(out, **_):
    return _contiguous(out)


@_for(aten.log_sigmoid_forward)
def _all_contiguous(out, **_):
    return tuple(map(_contiguous, out))


@_for(aten.native_layer_norm_backward)
def _first_contiguous(out, **_):
    return (out[0] if out[0] is None else _contiguous(out[0]), *out[1:])


@_for(aten.log_sigmoid_backward)
def _like_gradient(out, grad_output, **_):
    return torch.empty_like(grad_output)


@_for(aten.binary_cross_entropy_backward)
def _like_input(out, self, **_):
    return torch.empty_like(self)


@_for(
    aten.channel_shuffle, aten.pixel_shuffle, aten.max_unpool2d, aten.reflection_pad2d,
    aten.reflection_pad3d, aten.replication_pad2d, aten.replication_pad3d, aten.roll,
    aten.reflection_pad2d_backward, aten.reflection_pad3d_backward,
    aten.replication_pad2d_backward, aten.replication_pad3d_backward,
)  # fmt: skip
def _in_format_of_input(out, self, **_):
    return _in_format(out, self)


@_for(aten.convolution)
def _convolution(out, input, weight, **_):
    return _in_format(out, input, weight) if input.dim() == 4 else out


@_for(
    aten.elu_backward, aten.hardswish_backward, aten.hardsigmoid_backward, aten.hardtanh_backward,
    aten.softplus_backward, aten.xlogy,
)  # fmt: skip
def _elementwise(out, **given):
    tensors = [t for t in given.values() if isinstance(t, torch.Tensor)]
    return _iterated(out, *tensors) if len(tensors) == 2 else out


@_for(aten.leaky_relu_backward, aten.threshold_backward)
def _elementwise_swapped(out, grad_output, self, **_):
    return _iterated(out, self, grad_output)


def _is_mixed(input, *parameters):
    """Whether a 16-bit input has float32 parameters; then the statistics are float32, too."""
    given = [p for p in parameters if p is not None]
    return input.dtype in _SMALL_FLOATS and any(p.dtype is torch.float32 for p in given)


def _statistics_type(input, *parameters):
    return torch.float32 if _is_mixed(input, *parameters) else input.dtype


@_for(aten.native_layer_norm)
def _layer_norm(out, input, weight, bias, **_):
    dtype = _statistics_type(input, weight, bias)
    return out[0], *(_empty(t.shape, dtype) for t in out[1:])


@_for(
    aten.native_batch_norm, aten._native_batch_norm_legit,
    aten._native_batch_norm_legit_no_training, aten._batch_norm_no_update,
)  # fmt: skip
def _batch_norm(out, input, weight, bias, running_mean=None, running_var=None, **rest):
    """Keep no statistics outside training."""
    dtype = _statistics_type(input, weight, bias, running_mean, running_var)
    shape = out[1].shape if rest.get("training", False) else (0,)
    return out[0], _empty(shape, dtype), _empty(shape, dtype), *out[3:]


@_for(aten._batch_norm_with_update)
def _batch_norm_in_training(out, **given):
    return _batch_norm(out, **given, training=True)


@_for(aten.native_batch_norm_backward)
def _batch_norm_backward(out, input, **_):
    return (None if out[0] is None else _in_format(out[0], input), *out[1:])


@_for(aten.mse_loss, aten.smooth_l1_loss, aten.soft_margin_loss, aten.binary_cross_entropy)
def _loss(out, self, target, reduction=1, **_):
    """Reduce into the storage of the elementwise losses, as the kernels do on every device."""
    if reduction == 0:
        return out
    return _empty((), out.dtype, math.prod(torch.broadcast_shapes(self.shape, target.shape)))


@_for(aten.col2im, aten.im2col)
def _columns(out, self, **_):
    """Write into a storage as large as the input's."""
    return _empty(out.shape, out.dtype, self.numel())


@_for(aten._linalg_svd)
def _svd(out, **_):
    left, values, right = out
    return left, values, torch.empty(right.mT.shape, dtype=right.dtype, device=_META).mT


@_for(aten.linalg_eig)
def _eig(out, **_):
    values, vectors = out
    return values, torch.empty(vectors.mT.shape, dtype=vectors.dtype, device=_META).mT


@_for(aten._embedding_bag)
def _embedding_bag(
    out, weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False,
    per_sample_weights=None, include_last_offset=False, padding_idx=-1,
):  # fmt: skip
    """Return an empty `offset2bag` if sums take the fast path."""
    fast = (
        mode == 0
        and weight.dtype in (torch.float32, *_SMALL_FLOATS)
        and weight.stride(1) == 1
        and padding_idx < 0
        and (per_sample_weights is None or per_sample_weights.stride(0) == 1)
    )
    bags = out[0].shape[0]
    offset2bag = _empty(
        (0,) if fast else indices.shape, indices.dtype, 0 if fast else len(indices) + 1
    )
    largest = (bags, weight.shape[1]) if mode == 2 else (bags,)
    return out[0], offset2bag, _empty((bags,), indices.dtype), _empty(largest, indices.dtype)

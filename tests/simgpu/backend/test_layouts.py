"""Results on shapes lie as the CPU's kernels lay them out, whatever the operands' layouts are."""

import itertools

import pytest
import torch
from support.samples.op_samples import layout_of

from simgpu.backend.operations.layouts import as_on_cpu
from simgpu.kernels.facts import aten, lookup

SHAPE = (2, 8, 6, 6)
PLACES = {
    "contiguous": lambda x: x,
    "channels_last": lambda x: x.to(memory_format=torch.channels_last),
    "reversed": lambda x: x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
    "transposed": lambda x: x.mT.contiguous().mT,
    "number": lambda x: x[0, 0, 0, 0].clone().expand(SHAPE),
    "pooled": lambda x: x[:, :, :1, :1].clone().expand(SHAPE),
}
MEAN = torch.ones(8)


def _batch_norm_backward(g, x):
    mean = MEAN.to(x.device, x.dtype)
    mask = [True, False, False]
    rest = (mean, None, None, mean, mean, True, 1e-5, mask)
    return aten.native_batch_norm_backward.default, (g, x, *rest)


def _layer_norm_backward(g, x):
    mean = torch.ones(2, 8, 6, 1, dtype=x.dtype, device=x.device)
    rest = ([6], mean, mean, None, None, [True, False, False])
    return aten.native_layer_norm_backward.default, (g, x, *rest)


CALLS = {
    "elu": lambda g, x: (aten.elu_backward.default, (g, 1.0, 1, 1, False, x)),
    "gelu": lambda g, x: (aten.gelu_backward.default, (g, x)),
    "hardswish": lambda g, x: (aten.hardswish_backward.default, (g, x)),
    "hardsigmoid": lambda g, x: (aten.hardsigmoid_backward.default, (g, x)),
    "hardtanh": lambda g, x: (aten.hardtanh_backward.default, (g, x, -1.0, 1.0)),
    "softplus": lambda g, x: (aten.softplus_backward.default, (g, x, 1.0, 20.0)),
    "leaky_relu": lambda g, x: (aten.leaky_relu_backward.default, (g, x, 0.1, False)),
    "relu": lambda g, x: (aten.threshold_backward.default, (g, x, 0)),
    "sigmoid": lambda g, x: (aten.sigmoid_backward.default, (g, x)),
    "log_sigmoid": lambda g, x: (aten.log_sigmoid_backward.default, (g, x, x.contiguous())),
    "silu": lambda g, x: (aten.silu_backward.default, (g, x)),
    "mul": lambda g, x: (aten.mul.Tensor, (g, x)),
    "mul_mask": lambda g, x: (aten.mul.Tensor, (g, x > 0)),
    "xlogy": lambda g, x: (aten.xlogy.Tensor, (g, x)),
    "mse": lambda g, x: (aten.mse_loss_backward.default, (g, x, x, 0)),
    "huber": lambda g, x: (aten.huber_loss_backward.default, (g, x, x, 0, 1.0)),
    "smooth_l1": lambda g, x: (aten.smooth_l1_loss_backward.default, (g, x, x, 0, 1.0)),
    "bce": lambda g, x: (aten.binary_cross_entropy_backward.default, (g, x, x)),
    "log_softmax": lambda g, x: (aten._log_softmax_backward_data.default, (g, x, 1, x.dtype)),
    "softmax": lambda g, x: (aten._softmax_backward_data.default, (g, x, 1, x.dtype)),
    "batch_norm": _batch_norm_backward,
    "layer_norm": _layer_norm_backward,
    "roll": lambda g, x: (aten.roll.default, (x, [1], [1])),
}


def first(out):
    return out[0] if isinstance(out, tuple) else out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CALLS)
def test_gradients_lie_as_on_the_cpu(name, dtype):
    x = torch.linspace(0.1, 0.9, 576).reshape(SHAPE).to(dtype)
    for g_place, x_place in itertools.product(PLACES, PLACES):
        operands = PLACES[g_place](x), PLACES[x_place](x)
        func, args = CALLS[name](*operands)
        expected = first(func(*args))
        twins = [
            torch.empty_strided(t.shape, t.stride(), dtype=dtype, device="meta") for t in operands
        ]
        func, args = CALLS[name](*twins)
        out = first(as_on_cpu(lookup(func), (args, {}), func(*args)))
        assert layout_of(out, True) == layout_of(expected, True), (g_place, x_place)

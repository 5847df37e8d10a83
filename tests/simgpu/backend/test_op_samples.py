"""PyTorch's own samples: values as on the CPU; clock, bytes and layouts as without values.

`make test-all` runs every operation that PyTorch has samples of, in more types.
"""

import pytest
import torch
from support.samples.op_samples import LAYOUTS, compare, ops, samples

COMMON = """
abs add addbmm addcdiv addcmul addmm all amax amin argsort baddbmm bernoulli bmm cat cdist chunk
clamp clone conj contiguous cumsum diagonal div.no_rounding_mode dot einsum erf exp expand fft.rfft
flip floor_divide gather index_add index_put index_select isclose kthvalue lerp linalg.cholesky
linalg.det linalg.eigh linalg.inv linalg.lstsq linalg.norm linalg.qr linalg.solve linalg.svd log
log_softmax logsumexp masked_fill matmul max.reduction_with_dim maximum mean median mm msort mul mv
native_batch_norm native_layer_norm neg new_zeros norm outer permute pow repeat reshape roll rsqrt
scatter_add select sigmoid sin slice_scatter softmax sort split sqrt stack std sub sum tanh topk
trace transpose tril unbind unfold var view where xlogy zeros_like
nn.functional.adaptive_avg_pool2d nn.functional.avg_pool2d nn.functional.batch_norm
nn.functional.binary_cross_entropy nn.functional.channel_shuffle nn.functional.conv1d
nn.functional.conv2d nn.functional.conv_transpose2d nn.functional.cross_entropy
nn.functional.dropout nn.functional.elu nn.functional.embedding nn.functional.embedding_bag
nn.functional.gelu nn.functional.glu nn.functional.group_norm
nn.functional.hardswish nn.functional.hardsigmoid nn.functional.huber_loss
nn.functional.instance_norm nn.functional.interpolate.bilinear nn.functional.kl_div
nn.functional.layer_norm nn.functional.leaky_relu nn.functional.linear nn.functional.logsigmoid
nn.functional.max_pool2d nn.functional.max_unpool2d nn.functional.mse_loss nn.functional.nll_loss
nn.functional.normalize nn.functional.pad.reflect nn.functional.pad.replicate
nn.functional.pixel_shuffle nn.functional.prelu nn.functional.relu nn.functional.rms_norm
nn.functional.silu nn.functional.smooth_l1_loss nn.functional.soft_margin_loss
nn.functional.softplus nn.functional.unfold
""".split()  # noqa: SIM905

# What an operation is excused from, and why.
NOT_STRIDES = {  # of the results of shapes: simgpu/backend/operations/layouts.py
    "fft.rfft2", "fft.rfftn", "fft.irfft2", "fft.irfftn", "fft.hfft2", "fft.hfftn", "fft.ihfft2",
    "fft.ihfftn", "ormqr", "to",
}  # fmt: skip
NOT_THE_CPUS_STRIDES = {"median", "nanmedian"}  # PyTorch computes their gradients as on CUDA
NOT_TO_THE_BIT = {
    "nn.functional.rms_norm",  # one kernel backward, of which the CPU makes eighteen
    "nn.functional.mish",  # nine kernels in the backward pass, of which the CPU makes one
    "nn.functional.linear_cross_entropy.chunked",  # adds its chunks in another order
    "nn.functional.linear_cross_entropy.chunked_none",
    "prod", "masked.prod",  # their gradients divide where the CPU's multiply
}  # fmt: skip
REFUSED = {  # sparse tensors, code for CUDA alone, sections on a device
    "sparse.sampled_addmm", "sparse.mm.reduce", "to_sparse", "tensor_split",
    "jiterator_unary", "jiterator_binary", "jiterator_4inputs_with_extra_args",
    "jiterator_binary_return_by_ref", "jiterator_2inputs_2outputs",
}  # fmt: skip
UNDEFINED = {  # memory that nobody has written
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
}  # fmt: skip


def differences(name, dtype, layout, count):
    """Return (samples compared, what differs) of one operation."""
    strides = name not in NOT_STRIDES
    as_on_the_cpu = strides and name not in NOT_THE_CPUS_STRIDES
    compared, found = 0, []
    for i, sample in enumerate(samples(name, dtype, count)):
        tolerance = 1e-2 if name in NOT_TO_THE_BIT else 0.0
        if sample.kwargs.get("driver") == "gelsy":  # of lstsq: the CPU differs from itself
            tolerance = 1e-5
        result = compare(name, sample, layout, tolerance, strides, as_on_the_cpu)
        compared += result is not None
        found += [f"{name}, sample {i}, {dtype}, {layout}: {text}" for text in result or ()]
    return compared, found


@pytest.mark.parametrize("name", COMMON)
def test_a_common_operation(name):
    compared, found = 0, []
    for layout, count in zip(LAYOUTS, (2, 1, 3), strict=True):
        one = differences(name, torch.float32, layout, count)
        compared, found = compared + one[0], found + one[1]
    found += differences(name, torch.bfloat16, "plain", 1)[1]
    assert compared >= 3
    assert not found, "\n".join(found)


def pytest_generate_tests(metafunc):
    """Ask PyTorch which operations there are only for the test of them all."""
    if metafunc.function is test_every_operation:
        metafunc.parametrize("name", sorted(ops().keys() - REFUSED - UNDEFINED))


@pytest.mark.exhaustive
def test_every_operation(name):
    found = []
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64):
        for layout in LAYOUTS:
            found += differences(name, dtype, layout, 12)[1]
    assert not found, "\n".join(found)

"""Bytes that kernels move beyond reading each operand and writing each result once."""

import pytest
import torch
import torch.nn.functional as F

import simgpu as sim
from simgpu.hardware import GPUS

SHAPE, FILTERS = (16, 64, 28, 28), (64, 64, 3, 3)
LAST = torch.channels_last


def bytes_of_kernels(program, gpu="a100"):
    """Return the bytes of each kind of kernel that a program launches on a device."""
    with sim.machine(1, gpu=gpu, numerics=False) as (device,):
        start = len(sim.trace())
        program(device)
        found = {}
        for span in sim.trace()[start:]:
            if span.engine == "compute":
                found[span.name] = found.get(span.name, 0) + span.bytes
    return found


def convolve(dtype=torch.float16, layout=torch.contiguous_format, groups=1, needs=True):
    """Return a program: a convolution forward and backward."""

    def program(device):
        x = torch.empty(SHAPE, dtype=dtype, device=device, memory_format=layout)
        shape = (FILTERS[0], FILTERS[1] // groups, *FILTERS[2:])
        w = torch.empty(shape, dtype=dtype, device=device, memory_format=layout)
        out = F.conv2d(x.requires_grad_(needs), w.requires_grad_(), padding=1, groups=groups)
        out.backward(torch.empty_like(out))

    return program


DATA = 2 * 16 * 64 * 28 * 28  # bytes of the data in 16 bits; the result is as large
WEIGHT = 2 * 64 * 64 * 9


def test_without_transposes_a_gradient_that_two_kernels_read_counts_twice():
    found = bytes_of_kernels(convolve(layout=LAST))
    assert found["convolution"] == 2 * DATA + WEIGHT
    assert found["convolution_backward"] == 4 * DATA + 2 * WEIGHT
    alone = bytes_of_kernels(convolve(layout=LAST, needs=False))
    assert alone["convolution_backward"] == 2 * DATA + 2 * WEIGHT


def test_tensor_cores_transpose_data_whose_channels_are_not_last():
    last, first = bytes_of_kernels(convolve(layout=LAST)), bytes_of_kernels(convolve())
    assert first["convolution"] - last["convolution"] == 2 * DATA
    assert first["convolution_backward"] - last["convolution_backward"] == 6 * DATA


@pytest.mark.parametrize("gpu", [name for name in GPUS if name in ("k80", "v100", "t4", "a100")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_only_tensor_cores_want_channels_last(gpu, dtype):
    cores = {"v100": [torch.float16], "t4": [torch.float16],
             "a100": [torch.float16, torch.bfloat16, torch.float32]}  # fmt: skip
    first, last = (
        bytes_of_kernels(convolve(dtype, f), gpu) for f in (torch.contiguous_format, LAST)
    )
    assert (first != last) == (dtype in cores.get(gpu, []))


def test_without_tf32_nothing_is_transposed():
    before = torch.backends.cudnn.allow_tf32
    try:
        torch.backends.cudnn.allow_tf32 = False
        first = bytes_of_kernels(convolve(torch.float32))
        assert first == bytes_of_kernels(convolve(torch.float32, LAST))
    finally:
        torch.backends.cudnn.allow_tf32 = before


def test_depthwise_convolutions_run_on_no_tensor_core():
    first, last = (
        bytes_of_kernels(convolve(layout=f, groups=64)) for f in (torch.contiguous_format, LAST)
    )
    assert first == last


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_in_training_reads_its_data_twice(training):
    def program(device):
        norm = torch.nn.BatchNorm2d(64, device=device).train(training)
        x = torch.empty(SHAPE, device=device, requires_grad=True)
        out = norm(x)
        out.backward(torch.empty_like(out))

    found, data = bytes_of_kernels(program), 2 * DATA
    small = 64 * 4 * 10  # weight, bias, statistics and their gradients
    forward, backward = found["native_batch_norm"], found["native_batch_norm_backward"]
    assert 0 <= forward - (3 if training else 2) * data <= small
    assert 0 <= backward - (5 if training else 3) * data <= small

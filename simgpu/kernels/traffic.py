"""The bytes that an operation reads and writes.

An operation reads each operand and writes each result once, unless ``table.py`` names one of these
functions for it. Some move more than that.

Batch normalisation in training reads its data for the statistics, and again to apply them
(``batch_norm_stats`` and ``batch_norm_transform_input``, ``batch_norm_backward_reduce`` and
``batch_norm_backward_elemt`` in aten/src/ATen/native/cuda/Normalization.cu of PyTorch).

The backward pass of a convolution is two kernels, and both read the gradient. Tensor Cores read
data whose channels come last. cuDNN transposes others first (NVIDIA, *Convolutional Layers User's
Guide*, 2023, section 2.2), in a kernel for each operand, and writes the result as it is wanted: its
kernels are named ``nhwc2nchw``, or ``nhwckrsc_nchw``.
"""

import torch

from simgpu.hardware.device_properties import properties_of

_TENSOR_CORES = {"float16": 7, "bfloat16": 8, "tf32": 8}  # peak -> first major capability


def bytes_of(tensors):
    """Return the total bytes of tensors, without those that an expanded tensor repeats."""
    total = 0
    for tensor in tensors:
        own = tensor.nbytes
        if not tensor.is_contiguous():  # it may repeat elements: its storage is all there is
            own = min(own, tensor.untyped_storage().nbytes())
        total += own
    return total


def written(tensors, outs, *_):
    """Count the results: nothing is read."""
    return bytes_of(outs)


def gathered(tensors, outs, *_):
    """Count the results twice, and the indices: of the first tensor, what is taken is read."""
    return 2 * bytes_of(outs) + bytes_of(tensors[1:])


def scattered(tensors, outs, *_):
    """Count the indices, and what is given three times: where it goes is read and written, too."""
    return bytes_of(tensors[1:]) + 2 * bytes_of(tensors[-1:])


def copied(tensors, outs, *_):
    """Count the target and the source of a copy."""
    return bytes_of(outs) + bytes_of(tensors[1:2])


def copied_each(tensors, outs, args, *_):
    """Count the targets and the sources of copies."""
    return bytes_of([*args[0], *args[1]])


def optimized(tensors, outs, args, kwargs, out):
    """Count each tensor that a fused optimiser reads or writes.

    It writes the gradients, its second argument, only to undo the scale that it is given.
    """
    scales = kwargs.get("grad_scale") is not None
    return bytes_of([*outs, *tensors]) - (0 if scales else bytes_of(args[1]))


def batch_norm(gpu, peak, args):
    """Return the bytes of the second pass over the data, which only training makes."""
    training = next(value for value in args[3:] if type(value) is bool)
    return args[0].nbytes if training else 0


def batch_norm_in_training(gpu, peak, args):
    """Return the bytes of the second pass over the data."""
    return args[0].nbytes


def batch_norm_backward(gpu, peak, args):
    """Return the bytes of the second pass over gradient and data."""
    return args[0].nbytes + args[1].nbytes if args[7] else 0


def convolution(gpu, peak, args):
    """Return the bytes of the transpositions before and after a convolution."""
    data, weight = args[:2]
    return _transposed(gpu, peak, weight, data)


def convolution_backward(gpu, peak, args):
    """Return the bytes of the transpositions, and of the gradient's second reading."""
    grad, data, weight, wanted = *args[:3], args[10]
    of_data = _transposed(gpu, peak, weight, grad) if wanted[0] else 0
    of_weight = _transposed(gpu, peak, weight, grad, data) if wanted[1] else 0
    return of_data + of_weight + (grad.nbytes if wanted[0] and wanted[1] else 0)


def _transposed(gpu, peak, weight, *operands):
    """Return the bytes that are read and written to put the channels of `operands` last."""
    depthwise = weight.shape[1] == 1  # runs on no Tensor Core
    if depthwise or properties_of(gpu).capability[0] < _TENSOR_CORES.get(peak, 99):
        return 0
    return sum(2 * tensor.nbytes for tensor in operands if not _channels_last(tensor))


def _channels_last(tensor):
    if tensor.dim() == 4:
        return tensor.is_contiguous(memory_format=torch.channels_last)
    if tensor.dim() == 5:
        return tensor.is_contiguous(memory_format=torch.channels_last_3d)
    return False

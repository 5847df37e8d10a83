"""`nn.TransformerEncoder` with a padding mask: without the nested tensors of its fast path.

In evaluation PyTorch leaves out padded tokens at the ends of sequences: it packs the others into a
nested tensor, and fills their places with zeros after the last layer. Simulated GPUs have no nested
tensors, so the layers get the padded tokens and the mask. The result is the same; the work is that
of the padded tokens as well.
"""

import functools

import torch

from simgpu.backend.tensor import handles
from simgpu.kernels.facts import aten
from simgpu.races import detector as races


class _WouldBeNestedError(Exception):
    """PyTorch is about to make a nested tensor; holds which tokens it would keep."""


@handles(aten._nested_tensor_from_mask_left_aligned)
def _is_left_aligned(op, args, kwargs):
    """Return whether all padding is at the ends of the sequences; the host waits for that."""
    src, kept = args
    device = src._device
    device.sink.launch(op.name, num_bytes=kept.nbytes)
    if races.active is not None:
        races.active.touch(device, op.name, [kept])
    device.to_host(1, reason=op.name)
    return not device.machine.numerics or op.func(src._data, kept._data)


@handles(aten._nested_tensor_from_mask)
def _refuse(op, args, kwargs):
    raise _WouldBeNestedError(args[1])


def _without_nested_tensors(forward):
    """Wrap ``TransformerEncoder.forward`` to run the layers on padded tensors instead."""

    @functools.wraps(forward)
    def padded(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        try:
            return forward(self, src, mask, src_key_padding_mask, is_causal)
        except _WouldBeNestedError as error:
            (kept,) = error.args
        for layer in self.layers:  # there is no other mask, or PyTorch would not have packed
            src = layer(src, src_key_padding_mask=src_key_padding_mask)
        src = src.masked_fill(kept.logical_not().unsqueeze(-1), 0.0)
        return src if self.norm is None else self.norm(src)

    return padded


def replacements() -> dict:
    """Return the replacement that does without nested tensors."""
    own = torch.nn.TransformerEncoder.forward
    return {"torch.nn:TransformerEncoder.forward": _without_nested_tensors(own)}

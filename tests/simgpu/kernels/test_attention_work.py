"""The FLOPs of fused attention under a causal mask: those of the pairs that the mask leaves."""

import pytest
import torch

from simgpu.kernels.attention import fused

aten = torch.ops.aten


@pytest.mark.parametrize("lengths", [(32, 32), (16, 48), (48, 16)], ids=str)
@pytest.mark.parametrize("kernel", ["flash", "efficient", "cudnn"])
def test_a_causal_mask_is_aligned_as_the_kernel_aligns_it(kernel, lengths):
    """Flash attention's diagonal ends with the last query and key; the others' begin with both."""
    queries, keys = lengths
    q, k = (torch.zeros(1, 2, length, 8, device="meta") for length in lengths)
    func = getattr(aten, f"_scaled_dot_product_{kernel}_attention").default
    offset = keys - queries if kernel == "flash" else 0
    seen = torch.ones(queries, keys).tril(offset).sum().item()
    more = (None, False) if kernel != "flash" else ()
    found = fused(kernel, False, func, (q, k, k, *more), {"is_causal": True}).flops
    pairs = found / (4 * 2 * 8)  # two products of heads of 8 numbers
    assert 0 <= seen - pairs <= max(lengths) / 2  # half of the diagonal

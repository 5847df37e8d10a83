"""FlexAttention on simulated GPUs, against PyTorch's own on the CPU."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, sys, warnings
import torch
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention
warnings.simplefilter("ignore")
device = sys.argv[1]
torch.manual_seed(0)
q, k, v = (torch.randn(2, heads, 16, 8) for heads in (4, 2, 2))
slopes, document = torch.rand(4).to(device), torch.tensor([0] * 5 + [1] * 11).to(device)

def distance(score, b, h, i, j):
    return score - slopes[h] * (i - j).abs()

def causal(b, h, i, j):
    return i >= j

def same_document(b, h, i, j):
    return (document[i] == document[j]) & (i >= j)

def nothing_for_some(b, h, i, j):
    return (i >= j) & (i != 3)

def mask(function):
    return create_block_mask(function, None, None, 16, 16, device=device)

for kwargs in (
    {}, {"score_mod": distance}, {"block_mask": mask(causal)}, {"scale": 0.5},
    {"score_mod": distance, "block_mask": mask(same_document)},
    {"block_mask": mask(nothing_for_some)},
):
    parts = [x.to(device) for x in (q, k, v)]
    out, lse = flex_attention(*parts, enable_gqa=True, return_lse=True, **kwargs)
    aux = flex_attention(*parts, enable_gqa=True, return_aux=AuxRequest(lse=True), **kwargs)[1]
    assert torch.equal(aux.lse, lse) and aux.max_scores is None
    for x in (out, lse):
        print("values", *(f"{y:.5f}" for y in x.flatten().cpu().tolist()))

def gradients(attend, device):
    parts = [x.clone().to(device).requires_grad_() for x in (q, k, v)]
    attend(*parts).sin().sum().backward()
    return [part.grad.cpu() for part in parts]

if device == "cuda":  # PyTorch's own has no backward pass on the CPU
    i = torch.arange(16)
    bias = -slopes.cpu().view(4, 1, 1) * (i[:, None] - i).abs()
    bias = bias.masked_fill(i[:, None] < i, float("-inf"))
    for found, expected in zip(
        gradients(lambda *x: flex_attention(
            *x, score_mod=distance, block_mask=mask(causal), enable_gqa=True), "cuda"),
        gradients(lambda *x: torch.nn.functional.scaled_dot_product_attention(
            *x, attn_mask=bias, enable_gqa=True), "cpu"),
    ):
        torch.testing.assert_close(found, expected)
"""


def values(text):
    return [
        [float(x) for x in line.split()[1:]] for line in text.splitlines() if line[:6] == "values"
    ]


@pytest.mark.long
@pytest.mark.process  # PyTorch's own traces, which it cannot where GPUs are simulated
@pytest.mark.slow
def test_values_are_those_of_the_cpu(simgpu_run):
    code, out, err = simgpu_run(SCRIPT, args=["cuda"])
    assert code == 0, err
    assert err.count("flex_attention is not compiled here") == 1
    found = values(out)
    command = [sys.executable, "-c", SCRIPT, "cpu"]
    expected = values(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert len(found) == len(expected) == 12
    for one, other in zip(found, expected, strict=True):
        assert len(one) == len(other)
        assert all(a == b or abs(a - b) < 1e-4 for a, b in zip(one, other, strict=True))

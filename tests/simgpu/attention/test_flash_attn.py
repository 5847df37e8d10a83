"""The stand-in for flash-attn: importable in a script, with flash-attn's values."""

SCRIPT = """
import torch
import importlib.metadata
from flash_attn import flash_attn_func, flash_attn_qkvpacked_func, flash_attn_varlen_func
from flash_attn import flash_attn_with_kvcache
from flash_attn.bert_padding import pad_input, unpad_input
from flash_attn.flash_attn_interface import flash_attn_varlen_qkvpacked_func
assert importlib.metadata.version("flash_attn") == importlib.metadata.version("flash-attn")
assert "flash_attn" in importlib.metadata.packages_distributions()
torch.cuda.set_device(0)
def naive(q, k, v, causal, left):
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    i = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    j = torch.arange(k.shape[2])
    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
    if causal:
        seen &= j <= i
    if left >= 0:
        seen &= j >= i - left
    scores = (q @ k.mT / 8).masked_fill(~seen, float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2)
for queries, heads in ((48, 4), (20, 2), (1, 4)):
    for causal in (False, True):
        for left in (-1, 5):
            q, k, v = torch.randn(2, queries, 4, 64), *torch.randn(2, 2, 48, heads, 64)
            out = flash_attn_func(
                *(x.cuda() for x in (q, k, v)), causal=causal, softmax_scale=1 / 8,
                window_size=(left, 0 if causal else -1),
            )
            error = (out.cpu() - naive(q, k, v, causal, left)).abs().max().item()
            assert error < 1e-4, (queries, heads, causal, left, error)
qkv = torch.randn(2, 16, 3, 4, 64).cuda()
assert flash_attn_qkvpacked_func(qkv, causal=True).shape == (2, 16, 4, 64)
mask = (torch.arange(16) < torch.tensor([[9], [16]])).long().cuda()
packed, indices, begins, longest, used = unpad_input(qkv, mask)
assert (begins.tolist(), longest, used.tolist(), packed.shape[0]) == ([0, 9, 25], 16, [9, 16], 25)
out = flash_attn_varlen_qkvpacked_func(packed, begins, longest, causal=True)
out = pad_input(out, indices, 2, 16)
whole = flash_attn_qkvpacked_func(qkv, causal=True)
assert torch.allclose(out[0, :9], whole[0, :9], atol=1e-5) and not out[0, 9:].any()
assert torch.allclose(out[1], whole[1], atol=1e-5)
q, k, v = packed.unbind(1)
last = torch.tensor([0, 1, 2], dtype=torch.int32).cuda()  # one query for each sequence
one = flash_attn_varlen_func(q[[8, 24]], k, v, last, begins, 1, longest, causal=True)
assert torch.allclose(one, torch.stack([whole[0, 8], whole[1, 15]]), atol=1e-5)
try:
    flash_attn_func(*qkv.unbind(2), softcap=30.0)
except NotImplementedError as error:
    print("refused:", error)
try:
    flash_attn_with_kvcache(*qkv.unbind(2))
except NotImplementedError as error:
    print("refused:", error)
"""


def test_values_are_those_of_flash_attention(simgpu_run):
    code, out, err = simgpu_run(SCRIPT, "--nproc-per-node", "1")
    assert code == 0, err
    assert "refused: flash_attn_func(softcap=30.0)" in out
    assert "refused: flash_attn_with_kvcache: simgpu's stand-in" in out

"""The stand-in for flash-attn: importable in a script, with flash-attn's values."""

SCRIPT = """
import torch
from flash_attn import flash_attn_func, flash_attn_qkvpacked_func
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
try:
    flash_attn_func(*qkv.unbind(2), softcap=30.0)
except NotImplementedError as error:
    print("refused:", error)
"""


def test_values_are_those_of_flash_attention(simgpu_run):
    code, out, err = simgpu_run(SCRIPT, "--nproc-per-node", "1")
    assert code == 0, err
    assert "refused: flash_attn_func(softcap=30.0)" in out

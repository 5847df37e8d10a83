"""Which attention kernel PyTorch takes on a GPU, and its errors if a program allows none that fits.

The table is read from the rules of PyTorch's CUDA build (see `simgpu.backend.attention.choice`).
"""

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import simgpu as sim

HALF, BF16, FP32, FP64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
M, F_, E, C = "MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION"
GPUS = "k80", "v100", "t4", "a100", "rtx4090", "h100", "b200"


def choice(gpu, dtype=BF16, q=(2, 4, 8, 64), k=None, v=None, mask=None, grad=True, **kwargs):
    """Return the name of the backend for tensors of these shapes."""
    (device,) = sim.configure(1, gpu=gpu, numerics=False)
    shapes = q, k or q, v or k or q
    tensors = [
        torch.empty(shape, dtype=dtype, device=device, requires_grad=grad) for shape in shapes
    ]
    if mask is not None:
        mask = torch.empty(mask, dtype=torch.bool, device=device)
    return SDPBackend(torch._fused_sdp_choice(*tensors, mask, **kwargs)).name


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (HALF, (M, E, E, F_, F_, C, C)),
        (BF16, (M, M, M, F_, F_, C, C)),
        (FP32, (M, E, E, E, E, E, E)),
        (FP64, (M,) * 7),
    ],
)
def test_by_gpu_and_type(dtype, expected):
    assert tuple(choice(gpu, dtype) for gpu in GPUS) == expected


LONG, MASK = (2, 4, 16, 64), (8, 8)


@pytest.mark.parametrize(
    ("case", "on_a100", "on_h100"),
    [
        ({"is_causal": True}, F_, C),
        ({"mask": MASK}, E, C),
        ({"mask": (2, 1, 8, 8)}, E, C),
        ({"mask": (4, 8, 8)}, E, E),  # cuDNN takes masks of 2 or 4 dimensions
        ({"mask": MASK, "is_causal": True}, M, M),  # which refuses both
        ({"dropout_p": 0.1}, F_, F_),  # cuDNN takes multiples of 1/16
        ({"dropout_p": 0.125}, F_, C),
        ({"k": LONG}, F_, C),
        ({"k": LONG, "is_causal": True}, E, C),
        ({"k": (2, 2, 8, 64)}, M, M),  # not without enable_gqa
        ({"k": (2, 2, 8, 64), "enable_gqa": True}, F_, C),
        ({"k": (2, 2, 8, 64), "enable_gqa": True, "mask": MASK}, M, C),
        ({"k": (2, 3, 8, 64), "enable_gqa": True}, M, M),
        ({"k": (2, 4, 8, 64), "v": (2, 4, 8, 32)}, E, C),
        ({"q": (2, 4, 8, 20)}, F_, F_),  # padded to 24
        ({"q": (2, 4, 8, 192)}, F_, F_),
        ({"q": (2, 4, 8, 264)}, E, E),
        ({"q": (2, 4, 8, 257)}, M, M),
        ({"q": (2, 4, 0, 64)}, M, M),
        ({"q": (4, 8, 64)}, M, M),
        ({"dtype": FP32, "q": (2, 4, 8, 3)}, M, M),
        ({"dtype": FP32, "k": (2, 2, 8, 64), "enable_gqa": True}, M, M),
    ],
)
def test_by_shape_mask_and_dropout(case, on_a100, on_h100):
    assert (choice("a100", **case), choice("h100", **case)) == (on_a100, on_h100)


def test_heads_over_192_train_in_flash_attention_on_data_centre_gpus_only():
    wide = {"q": (2, 4, 8, 224)}
    assert choice("a100", **wide) == F_
    assert choice("rtx4090", **wide) == E
    assert choice("rtx4090", grad=False, **wide) == F_


def test_strides_and_determinism():
    (device,) = sim.configure(1, gpu="h100", numerics=False)
    x = torch.empty(2, 4, 8, 8, dtype=BF16, device=device)
    assert torch._fused_sdp_choice(x.mT, x, x) == SDPBackend.MATH.value
    torch.use_deterministic_algorithms(True)
    try:
        assert torch._fused_sdp_choice(x, x, x) == SDPBackend.FLASH_ATTENTION.value
    finally:
        torch.use_deterministic_algorithms(False)


def kernel_of(q, *args, **kwargs):
    sim.reset()
    F.scaled_dot_product_attention(q, q, q, *args, **kwargs)
    names = [s.name for s in sim.trace() if s.engine == "compute" and "attention" in s.name]
    return names[0].split("_")[4] if names else "math"


def test_a_program_chooses():
    (device,) = sim.configure(1, gpu="a100", numerics=False)
    q = torch.empty(2, 4, 8, 64, dtype=BF16, device=device)
    for backend, name in ((M, "math"), (F_, "flash"), (E, "efficient"), (C, "cudnn")):
        with sdpa_kernel(getattr(SDPBackend, backend)):
            assert kernel_of(q) == name
    order = [getattr(SDPBackend, name) for name in (C, M, F_)]
    with sdpa_kernel(order, set_priority=True):
        assert kernel_of(q) == "cudnn"
        assert kernel_of(q.float()) == "math"
    with sdpa_kernel(order):
        assert kernel_of(q) == "flash"
    assert kernel_of(q) == "flash"


def test_errors_if_none_fits_are_pytorchs_own():
    (device,) = sim.configure(1, gpu="a100", numerics=False)
    q = torch.empty(2, 4, 8, 64, device=device)
    mask = torch.ones(8, 8, dtype=torch.bool, device=device)
    with (
        sdpa_kernel(SDPBackend.FLASH_ATTENTION),
        pytest.warns(UserWarning, match=r"cuDNN attention.*runtime disabled"),
        pytest.warns(UserWarning, match=r"Flash attention kernel not used.*takes no attn_mask"),
        pytest.warns(UserWarning, match=r"Memory efficient.*runtime disabled"),
        pytest.raises(RuntimeError, match=r"No available kernel\. Aborting execution\."),
    ):
        F.scaled_dot_product_attention(q, q, q, mask)
    with sdpa_kernel([]), pytest.raises(RuntimeError, match="No viable backend"):
        F.scaled_dot_product_attention(q, q, q)
    with pytest.raises(RuntimeError, match="attn_mask should not be set when is_causal"):
        F.scaled_dot_product_attention(q, q, q, mask, is_causal=True)
    with pytest.raises(RuntimeError, match="same dtype"):
        F.scaled_dot_product_attention(q, q.half(), q)
    with pytest.raises(RuntimeError, match="same device"):
        F.scaled_dot_product_attention(q, q, q, torch.ones(8, 8) > 0)


def test_the_host_is_not_affected():
    sim.configure(1)
    x = torch.randn(1, 2, 4, 8)
    assert torch._fused_sdp_choice(x, x, x) == SDPBackend.FLASH_ATTENTION.value
    out = F.scaled_dot_product_attention(x, x, x)
    sim.close()
    with pytest.raises(NotImplementedError):
        torch.ops.aten._scaled_dot_product_efficient_attention(x, x, x, None, False)
    assert torch.equal(out, F.scaled_dot_product_attention(x, x, x))

"""Which kernel PyTorch's CUDA build takes for attention: its rules, for the GPU that is simulated.

The rules are those of PyTorch 2.13: ``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp``
(``priority_order``, ``can_use_*_attention``, ``select_sdp_backend``) and ``sdp_utils_cpp.h``. Left
out are those for nested tensors, and the alignment of addresses. The build is taken to be NVIDIA's,
with a cuDNN later than 9.15.1, of which PyTorch asks first on Hopper and Blackwell; to cuDNN it
gives heads of up to 128 numbers.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention import SDPBackend

from simgpu.hardware.device_properties import properties_of

MATH, FLASH = SDPBackend.MATH.value, SDPBackend.FLASH_ATTENTION.value
EFFICIENT, CUDNN = SDPBackend.EFFICIENT_ATTENTION.value, SDPBackend.CUDNN_ATTENTION.value
_ORDER = [FLASH, EFFICIENT, MATH, CUDNN, SDPBackend.OVERRIDEABLE.value]  # unless a program sets it
_CUDNN_FIRST = [CUDNN, FLASH, EFFICIENT, MATH]
_HALF = torch.float16, torch.bfloat16


@dataclass
class AttentionCall:
    """One call of `torch.nn.functional.scaled_dot_product_attention` on a GPU."""

    query: Any
    key: Any
    value: Any
    mask: Any
    dropout: float
    causal: bool
    gqa: bool
    capability: tuple

    @property
    def tensors(self):
        """Queries, keys and values."""
        return self.query, self.key, self.value

    @property
    def trains(self):
        """Whether there will be a backward pass."""
        return torch.is_grad_enabled() and any(x.requires_grad for x in self.tensors)


def choose(gpu, query, key, value, mask=None, dropout=0.0, causal=False, gqa=False) -> int:
    """Return the number of the `torch.nn.attention.SDPBackend` that PyTorch takes on a `GPU`.

    Raises
    ------
    RuntimeError
        If a program allows none that fits (`torch.nn.attention.sdpa_kernel`); warnings say why.
    """
    capability = properties_of(gpu).capability
    call = AttentionCall(query, key, value, mask, dropout, causal, gqa, capability)
    may_use_math = torch._C._get_math_sdp_enabled()
    if mask is not None and causal:
        return MATH  # which refuses it
    if not (may_use_math or any(enabled() for _, enabled, _ in _FUSED.values())):
        raise RuntimeError("No viable backend for scaled_dot_product_attention was found.")
    for backend in _order(capability):
        if backend == MATH and may_use_math:
            return MATH
        if backend in _FUSED and not why_not(backend, call):
            return backend
    for backend in (EFFICIENT, FLASH, CUDNN):
        name, reason = _FUSED[backend][0], why_not(backend, call)
        warnings.warn(f"{name} kernel not used because: {reason}", stacklevel=2)
    raise RuntimeError("No available kernel. Aborting execution.")


def _order(capability):
    order = torch._C._get_sdp_priority_order()
    return _CUDNN_FIRST if order == _ORDER and capability[0] in (9, 10) else order


def why_not(backend, call) -> str:
    """Return why a fused kernel cannot run a call, or an empty string."""
    name, enabled, checks = _FUSED[backend]
    if not enabled():
        return f"{name} has been runtime disabled."
    return next((reason for check in checks if (reason := check(call))), "")


def _shapes(call):
    if any(x.dim() != 4 for x in call.tensors):
        return f"it needs 4 dimensions; query has {call.query.dim()}."
    if len({x.shape[0] for x in call.tensors}) > 1:
        return f"the batches differ: {[x.shape[0] for x in call.tensors]}."
    if 0 in (call.query.shape[2], call.key.shape[2]):
        return "a sequence is empty."
    return ""


def _strides(call):
    given = [*call.tensors, *([] if call.mask is None else [call.mask])]
    if any(x.stride(-1) != 1 and x.shape[-1] != 1 for x in given):
        return "the last dimension must have stride 1."
    return ""


def _heads(call):
    heads, *others = (x.shape[1] for x in call.tensors)
    if others[0] == others[1] and (heads == others[0] or (call.gqa and heads % others[0] == 0)):
        return ""
    return f"query, key and value have {heads}, {others[0]} and {others[1]} heads."


def _same_heads(call):
    heads = [x.shape[1] for x in call.tensors]
    return "" if len(set(heads)) == 1 else f"it takes no grouped queries; the heads are {heads}."


def _types(call, allowed):
    found = {x.dtype for x in call.tensors}
    if len(found) == 1 and found <= set(allowed):
        return ""
    names = ", ".join(str(t) for t in allowed)
    return f"it takes {names}; query, key and value are {[str(x.dtype) for x in call.tensors]}."


def _types_of_halves(call):
    return _types(call, _HALF if call.capability[0] >= 8 else _HALF[:1])


def _types_of_efficient(call):
    halves = _HALF if call.capability[0] >= 8 else _HALF[:1]
    return _types(call, (*halves, torch.float32))


def _at_least(capability, name):
    def check(call):
        if call.capability >= capability:
            return ""
        return f"{name} needs compute capability {capability[0]}.{capability[1]}; it is " + (
            "{}.{} here.".format(*call.capability)
        )

    return check


def _no_mask(call):
    return "" if call.mask is None else "it takes no attn_mask."


def _flash_sizes(call):
    sizes = {x.shape[-1] for x in call.tensors}
    if len(sizes) > 1 or max(sizes) > 256:
        return f"heads must have one size, of at most 256; they have {sorted(sizes)}."
    size = call.query.shape[-1]
    small = (8, 6) <= call.capability <= (8, 9)  # multiprocessors
    if call.trains and small and size > 192 and (size <= 224 or call.dropout):
        return f"its backward pass takes no heads of {size} on this GPU."
    return ""


def _flash_causal(call):
    if call.causal and call.query.shape[2] != call.key.shape[2]:
        return "is_causal needs as many keys as queries."
    return ""


def _efficient_sizes(call):
    major, half = call.capability[0], call.query.dtype in _HALF
    step = 8 if half and major >= 7 else 4 if major >= 8 else 1
    sizes = [x.shape[-1] for x in call.tensors]
    if sizes[0] == sizes[1] and all(n and n % step == 0 for n in sizes):
        return ""
    return f"sizes of heads must be multiples of {step}; they are {sizes}."


def _cudnn_sizes(call):
    sizes = [x.shape[-1] for x in call.tensors]
    if sizes[0] != sizes[1] or any(n % 8 or n > 128 for n in sizes):
        return f"heads must have multiples of 8, up to 128; they have {sizes}."
    if call.key.shape[2] == 1 or (call.dropout and call.query.shape[2] == 1):
        return "it takes no sequences of length 1."
    return ""


def _cudnn_mask(call):
    mask = call.mask
    if mask is None:
        return ""
    whole = *call.query.shape[:3], call.key.shape[2]
    fits = all(m in (1, n) for m, n in zip(mask.shape[::-1], whole[::-1], strict=False))
    if mask.requires_grad or mask.dim() not in (2, 4) or not fits:
        return "it takes a mask of 2 or 4 dimensions that needs no gradient."
    return ""


def _cudnn_dropout(call):
    return "" if call.dropout * 16 % 1 == 0 else "dropout must be a multiple of 1/16."


def _cudnn_deterministic(call):
    strict = torch.are_deterministic_algorithms_enabled()
    if strict and not torch.is_deterministic_algorithms_warn_only_enabled():
        return "it is not deterministic."
    return ""


_FUSED = {  # backend: name in messages, whether a program allows it, its checks
    FLASH: ("Flash attention", torch._C._get_flash_sdp_enabled, (
        _shapes, _no_mask, _flash_sizes, _at_least((8, 0), "flash attention"), _flash_causal,
        _types_of_halves, _heads, _strides,
    )),
    EFFICIENT: ("Memory efficient", torch._C._get_mem_efficient_sdp_enabled, (
        _at_least((5, 0), "it"), _shapes, _efficient_sizes, _same_heads, _strides,
        _types_of_efficient,
    )),
    CUDNN: ("cuDNN attention", torch._C._get_cudnn_sdp_enabled, (
        _shapes, _cudnn_deterministic, _types_of_halves, _cudnn_mask,
        _at_least((8, 0), "cuDNN"), _cudnn_dropout, _heads, _strides, _cudnn_sizes,
    )),
}  # fmt: skip

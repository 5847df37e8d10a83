"""``torch.autocast("sim")``: PyTorch's rules for CUDA, applied to simulated GPUs.

Unlike CUDA's autocast, it does not cache the converted copies of weights.
"""

import contextlib

import torch

from simgpu.backend import tensor
from simgpu.kernels.facts import aten
from simgpu.naming import is_simulated, slot_type

# Run in the low-precision dtype.
_LOW = (
    "_convolution", "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "conv1d",
    "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d.input",
    "conv_transpose3d.input", "convolution", "einsum", "gru_cell", "linalg_multi_dot",
    "linalg_vecdot", "linear", "lstm_cell", "matmul", "mm", "mv", "prelu", "rnn_relu_cell",
    "rnn_tanh_cell", "scaled_dot_product_attention",
)  # fmt: skip
# Run in float32.
_HIGH = (
    "acos", "asin", "binary_cross_entropy_with_logits", "cdist", "cosh", "cosine_embedding_loss",
    "cosine_similarity", "cross_entropy_loss", "cumprod", "cumsum", "dist", "erfinv", "exp",
    "expm1", "group_norm", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "layer_norm",
    "linalg_vector_norm", "log", "log10", "log1p", "log2", "log_softmax.int", "margin_ranking_loss",
    "mse_loss", "multi_margin_loss", "multilabel_margin_loss", "native_layer_norm", "nll_loss",
    "nll_loss2d", "nll_loss_nd", "norm.Scalar", "norm.ScalarOpt_dim", "pdist", "poisson_nll_loss",
    "pow.Scalar", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "prod", "prod.dim_int", "reciprocal",
    "renorm", "rsqrt", "sinh", "smooth_l1_loss", "soft_margin_loss", "softmax.int",
    "softplus", "sum", "sum.dim_IntList", "tan", "triplet_margin_loss",
)  # fmt: skip
# Run in the widest dtype among the operands.
_WIDEST = (
    "addcdiv", "addcmul", "atan2", "bilinear", "cat", "cross", "dot", "grid_sampler", "index_put",
    "scatter_add", "stack", "tensordot", "vdot",
)  # fmt: skip


def _flat(values):
    for value in values:
        if type(value) in (list, tuple):
            yield from value
        else:
            yield value


def _is_of_simulated(value):
    """Whether a value is a simulated tensor or wraps one."""
    if isinstance(value, tensor.SimTensor):
        return True
    return (
        isinstance(value, torch.Tensor)
        and type(value) not in (torch.Tensor, torch.nn.Parameter)
        and is_simulated(value.device)
    )


def _is_floating(value):
    return isinstance(value, torch.Tensor) and value.dtype in (
        torch.float16, torch.bfloat16, torch.float32,
    )  # fmt: skip


def _cast(value, dtype):
    if _is_floating(value):
        return value if value.dtype is dtype else value.to(dtype)
    if type(value) in (list, tuple):
        return type(value)(_cast(v, dtype) for v in value)
    return value


def _widest(values):
    dtypes = {v.dtype for v in _flat(values) if _is_floating(v)}
    if not dtypes or len(dtypes) == 1:
        return next(iter(dtypes), torch.float32)
    return torch.float32


def _kernel(func, choose_dtype, keys):
    """Return a kernel that casts the arguments of `func` and runs it."""

    def cast_and_run(*args, **kwargs):
        values = (*args, *kwargs.values())
        with torch._C._ExcludeDispatchKeyGuard(keys):  # or `func` would dispatch to this kernel
            if not any(map(_is_of_simulated, _flat(values))):  # it is here by `of_wrappers`
                return func(*args, **kwargs)
            dtype = choose_dtype(values)
            args = [_cast(a, dtype) for a in args]
            return func(*args, **{k: _cast(v, dtype) for k, v in kwargs.items()})

    return cast_and_run


@contextlib.contextmanager
def of_wrappers():
    """Apply the rules in this thread also to tensors that wrap simulated ones, such as DTensors.

    PyTorch makes such wrappers in C++, with the dispatch keys of the device ``meta``, which has no
    autocast. So in this thread all operations have the keys, and the kernels look for themselves.
    """
    keys = [
        key for name in ("AutocastPrivateUse1", "AutocastCUDA")
        if tensor._AUTOCAST_KEYS.has(key := getattr(torch._C.DispatchKey, name))
    ]  # fmt: skip
    with contextlib.ExitStack() as stack:
        for key in keys:
            stack.enter_context(torch._C._IncludeDispatchKeyGuard(key))
        yield


def register() -> list:
    """Register the rules; return the libraries, which must be kept alive."""
    fallback = torch.library.Library("_", "IMPL")
    fallback.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    library = torch.library.Library("aten", "IMPL")
    add_rules(library, "AutocastPrivateUse1", slot_type())
    return [fallback, library]


def add_rules(library, key, device_type, **options) -> None:
    """Register the rules for ``torch.autocast(device_type)``, of which tensors have a `key`."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
    rules = (
        (_LOW, lambda _: torch.get_autocast_dtype(device_type)),
        (_HIGH, lambda _: torch.float32),
        (_WIDEST, _widest),
    )
    for names, choose_dtype in rules:
        for name in names:
            packet, _, overload = name.partition(".")
            func = getattr(getattr(aten, packet), overload or "default")
            library.impl(name, _kernel(func, choose_dtype, keys), key, **options)

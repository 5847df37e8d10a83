"""The one table of what operations cost: what each reads, writes and computes, and at which peak.

An operation that is not in it has one kernel that reads each operand and writes each result once.
Its FLOPs are those of PyTorch's own formulas (`torch.utils.flop_counter`), if there is one, at the
peak of ordinary matrix products. `simgpu.register_kernel` adds operations of other libraries.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch.utils.flop_counter import flop_registry

from simgpu.kernels import attention, precision, products, traffic
from simgpu.kernels.precision import Precision

# Kinds of kernels.
POINTWISE, REDUCTION, PRODUCT, ATTENTION = "pointwise", "reduction", "product", "attention"
COPY, FILL, DRAW, GATHER, SCATTER = "copy", "fill", "draw", "gather", "scatter"
OTHER = "other"


@dataclass(frozen=True, eq=False)
class Kernel:
    """What one call of an operation costs.

    Attributes
    ----------
    kind : str
        One of the kinds above.
    bytes : callable, optional
        Function of the tensors among the arguments, those among the results, arguments, keyword
        arguments and result that returns how many bytes are read and written. None: each tensor
        once.
    work : callable, optional
        Function of the operation's `OpOverload`, its arguments, keyword arguments and result that
        returns the FLOPs, and the matrix products ``(m, n, k, batch)`` or the `FusedAttention`
        that they are. None: no FLOPs are counted, memory decides.
    precision : Precision
        At which peak it computes (``precision.py``).
    more_bytes : callable, optional
        Function of the `GPU`, the key of the peak and the arguments that returns bytes to add.
    """

    kind: str = OTHER
    bytes: Callable | None = None
    work: Callable | None = None
    precision: Precision = precision.PRODUCTS
    more_bytes: Callable | None = None


def _by_products(find, func, args, kwargs, out):
    found = find(args, out)
    return products.flops(found), found


def _by_formula(formula, func, args, kwargs, out):
    return int(formula(*args, **kwargs, out_val=out)), ()


def _by_attention(kernel, backward, func, args, kwargs, out):
    work = attention.fused(kernel, backward, func, args, kwargs)
    return work.flops, work


def _product(find, peaks=precision.PRODUCTS, more_bytes=None):
    work = partial(_by_products, find)
    return Kernel(PRODUCT, work=work, precision=peaks, more_bytes=more_bytes)


def _fused(kernel, backward=False):
    work = partial(_by_attention, kernel, backward)
    return Kernel(ATTENTION, work=work, precision=precision.ATTENTION)


def _formula(formula):
    return Kernel(ATTENTION, work=partial(_by_formula, formula))


_SCALED = _product(products.mm, precision.SCALED)
_SCALED_GROUPED = _product(products.grouped_mm, precision.SCALED)
_ROWS = (
    # Operations without a kernel.
    (None,
     "empty empty_like empty_strided new_empty new_empty_strided empty_permuted resize_ set_ lift "
     "lift_fresh is_same_size record_stream is_pinned is_set_to _version is_coalesced sym_size "
     "dense_dim"),
    # Memory: what is read of the operands.
    (Kernel(FILL, traffic.written),
     "fill_ zero_ zeros_like ones_like full_like new_zeros new_ones new_full _foreach_zero_"),
    (Kernel(DRAW, traffic.written),
     "normal_ uniform_ random_ bernoulli_ exponential_ cauchy_ log_normal_ geometric_ rand_like "
     "randn_like randint_like"),
    (Kernel(COPY, traffic.copied), "copy_"),
    (Kernel(COPY, traffic.copied_each), "_foreach_copy_"),
    (Kernel(COPY), "clone _to_copy cat stack constant_pad_nd _chunk_cat repeat roll flip"),
    (Kernel(GATHER, traffic.gathered),
     "index gather index_select embedding take _unsafe_index"),
    (Kernel(SCATTER, traffic.scattered),
     "index_put_ _index_put_impl_ scatter_ scatter_add_ index_add_ index_copy_ index_fill_"),
    (Kernel(SCATTER), "embedding_dense_backward index_put scatter scatter_add index_add"),
    (Kernel(POINTWISE, traffic.optimized),
     "_fused_adam_ _fused_adamw_ _fused_sgd_ _fused_adagrad_"),
    # Arithmetic.
    (_product(products.mm), "mm"),
    (_product(products.addmm), "addmm"),
    (_product(products.bmm), "bmm"),
    (_product(products.baddbmm), "baddbmm"),
    (_product(products.grouped_mm), "_grouped_mm"),
    (_SCALED, "_scaled_mm _scaled_mm_v2"),
    (_SCALED_GROUPED, "_scaled_grouped_mm _scaled_grouped_mm_v2"),
    (_product(products.mm, precision.INTEGERS), "_int_mm"),
    (_product(products.int8_weights), "_weight_int8pack_mm"),
    (_product(products.int4_weights), "_weight_int4pack_mm"),
    (_product(products.convolution, precision.CONVOLUTIONS, traffic.convolution),
     "convolution"),
    (_product(products.convolution_backward, precision.CONVOLUTIONS,
              traffic.convolution_backward), "convolution_backward"),
    (_fused("flash"), "_scaled_dot_product_flash_attention"),
    (_fused("flash", True), "_scaled_dot_product_flash_attention_backward"),
    (_fused("efficient"), "_scaled_dot_product_efficient_attention"),
    (_fused("efficient", True), "_scaled_dot_product_efficient_attention_backward"),
    (_fused("cudnn"), "_scaled_dot_product_cudnn_attention"),
    (_fused("cudnn", True), "_scaled_dot_product_cudnn_attention_backward"),
    (_formula(attention.layer_flops), "_native_multi_head_attention"),
    (_formula(attention.encoder_layer_flops), "_transformer_encoder_layer_fwd"),
    # Reductions that PyTorch does not mark as such.
    (Kernel(REDUCTION, more_bytes=traffic.batch_norm),
     "native_batch_norm _native_batch_norm_legit"),
    (Kernel(REDUCTION, more_bytes=traffic.batch_norm_in_training), "_batch_norm_with_update"),
    (Kernel(REDUCTION, more_bytes=traffic.batch_norm_backward), "native_batch_norm_backward"),
    (Kernel(REDUCTION),
     "_softmax _softmax_backward_data _log_softmax _log_softmax_backward_data native_layer_norm "
     "native_layer_norm_backward native_group_norm native_group_norm_backward _fused_rms_norm "
     "_fused_rms_norm_backward nll_loss_forward nll_loss_backward nll_loss2d_forward "
     "nll_loss2d_backward cumsum max_pool2d_with_indices avg_pool2d _adaptive_avg_pool2d"),
)  # fmt: skip
TABLE = {f"aten::{name}": kernel for kernel, names in _ROWS for name in names.split()}
REGISTERED: dict = {}  # the same of other libraries, by `simgpu.register_kernel`


def kernel_of(func) -> Kernel | None:
    """Return the kernel of an operation, an `OpOverload`; None if it has none."""
    name, packet = func._schema.name, func.overloadpacket
    if name in REGISTERED:
        return REGISTERED[name]
    if name in TABLE:
        return TABLE[name]
    if (formula := flop_registry.get(packet)) is None:
        return _PLAIN[_kind_of(func, packet.__name__)]
    peaks = precision.CONVOLUTIONS if "conv" in packet.__name__ else precision.PRODUCTS
    return Kernel(PRODUCT, work=partial(_by_formula, formula), precision=peaks)


_PLAIN = {kind: Kernel(kind) for kind in (POINTWISE, REDUCTION, DRAW, OTHER)}


def _kind_of(func, name):
    tags = func.tags
    if torch.Tag.nondeterministic_seeded in tags:
        return DRAW
    if torch.Tag.pointwise in tags or name.startswith("_foreach"):
        return POINTWISE
    return REDUCTION if torch.Tag.reduction in tags else OTHER

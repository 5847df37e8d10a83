"""What the simulator knows about each PyTorch operation: name, kind, FLOPs, bytes, aliases."""

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from simgpu.backend.attention_work import KERNELS, fused_work
from simgpu.backend.more_bytes import MORE_BYTES
from simgpu.backend.products import PRODUCTS
from simgpu.backend.products import flops as flops_of
from simgpu.kernels import precision

aten = torch.ops.aten

_NO_KERNEL = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted",
    "resize_", "set_", "is_same_size", "record_stream", "is_pinned", "is_set_to", "_version",
    "is_coalesced", "sym_size", "dense_dim", "lift_fresh", "lift",
}  # fmt: skip
_UNDECLARED_VIEWS = {"_unsafe_view", "lift_fresh", "lift"}
_WRITES_ONLY = {
    "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "cauchy_",
    "log_normal_", "geometric_", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
    "randint_like", "new_zeros", "new_ones", "new_full", "_foreach_zero_",
}  # fmt: skip
# PyTorch allows these to write to a tensor that repeats its elements.
WRITE_THE_SAME = {
    "fill_", "zero_", "masked_fill_", "index_fill_", "index_put_", "_index_put_impl_",
}  # fmt: skip
# These write to the gradients, their second argument, only to undo the scale that they are given.
SCALE_GRADIENTS = {"_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_"}
# These read as many elements of their first tensor as they write, not all of it.
_GATHERS = {"index", "gather", "index_select", "embedding", "take", "_unsafe_index"}
# These touch only as many elements of the tensor they change as they are given.
_SCATTERS = {
    "index_put_", "_index_put_impl_", "scatter_", "scatter_add_", "index_add_", "index_copy_",
    "index_fill_",
}  # fmt: skip


def _attention_flops(query, key, value, embed_dim, *_, out_val=None, **__):
    """Return the FLOPs of four projections and, per sequence, two length x length products."""
    batch, length = query.shape[:2]
    return 8 * batch * length * embed_dim**2 + 4 * batch * length**2 * embed_dim


def _encoder_layer_flops(src, embed_dim, *rest, out_val=None, **_):
    """Return the FLOPs of attention and of the two products of the feed-forward part."""
    hidden = rest[12].shape[0]  # of ffn_weight_1
    feed_forward = 4 * src.shape[0] * src.shape[1] * embed_dim * hidden
    return _attention_flops(src, src, src, embed_dim) + feed_forward


# Fused inference operations for which PyTorch has no formula.
_OWN_FORMULAS = {
    aten._native_multi_head_attention: _attention_flops,
    aten._transformer_encoder_layer_fwd: _encoder_layer_flops,
}


MAX_REMEMBERED = 20_000  # entries of each cache of shapes or costs


class Op:
    """The facts about one operation (an `OpOverload`) that all its calls share."""

    __slots__ = (
        "_counts_all", "_work", "aliases", "attention", "call", "changed", "composite", "foreach",
        "formula", "full_name", "func", "generator", "inplace_view", "kernel", "makes",
        "makes_one", "may_sync", "more_bytes", "mutable", "name", "num_outs", "num_returns",
        "packet_name", "peak_of", "pointwise", "products", "seeded", "simple", "syncs", "view",
    )  # fmt: skip

    def __init__(self, func):
        schema = func._schema
        tags = set(func.tags)
        self.func = func
        self.full_name = str(func.overloadpacket)  # such as aten.add
        self.packet_name = func.overloadpacket.__name__
        self.name = self.packet_name.rstrip("_")
        self.num_returns = len(schema.returns)
        self.aliases = tuple(_alias(schema, r) for r in schema.returns)
        self.mutable = schema.is_mutable
        self.view = not schema.is_mutable and any(a is not None for a in self.aliases)
        if self.packet_name in _UNDECLARED_VIEWS:
            self.view, self.aliases = True, ((0, None),)
        self.num_outs = sum(a.is_out for a in schema.arguments)
        self.changed = [
            i for i, a in enumerate(schema.arguments)
            if a.alias_info is not None and a.alias_info.is_write
        ]  # fmt: skip
        self.inplace_view = (
            torch.Tag.inplace_view in tags
            or self.num_outs > 0
            or self.packet_name in ("resize_", "set_", "resize_as_")
        )
        self.kernel = not (
            self.view or torch.Tag.inplace_view in tags or self.packet_name in _NO_KERNEL
        )
        self.generator = next(
            (i for i, a in enumerate(schema.arguments) if a.name == "generator"), None
        )
        self.makes = self.kernel and not self.mutable  # results in new memory
        self.makes_one = self.makes and self.num_returns == 1
        # The C++ function that ``func(...)`` calls, or a faster equivalent.
        self.call = (_python_function(func) if self.makes_one else None) or func._op
        if self.packet_name == "histc":
            self.call = _histc
        self.pointwise = torch.Tag.pointwise in tags
        self.foreach = self.packet_name.startswith("_foreach")
        self.seeded = torch.Tag.nondeterministic_seeded in tags and self.generator is None
        self.syncs = self.packet_name != "index" and bool(
            tags & {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
        )
        self.may_sync = self.syncs or self.packet_name == "index"
        packet = func.overloadpacket
        # In inference mode these arrive undecomposed; otherwise PyTorch decomposes them itself.
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
        self.composite = has_kernel(func.name(), "CompositeImplicitAutograd") and not (
            has_kernel(func.name(), "CPU")
        )
        self.products = PRODUCTS.get(packet)
        self.attention = self.packet_name in KERNELS  # in one fused kernel
        self.formula = flop_registry.get(packet) or _OWN_FORMULAS.get(packet) or self.products
        self.more_bytes = MORE_BYTES.get(self.packet_name)
        self._work = {}
        self.peak_of = _peak_of(self)
        special = self.packet_name in {*_WRITES_ONLY, *_GATHERS, *_SCATTERS, "copy_"}
        self._counts_all = not (special or self.num_outs)
        # It makes one tensor, whose shape follows from those of its inputs, and is not random.
        self.simple = (
            self.makes_one and str(schema.returns[0].type) == "Tensor" and self._counts_all
            and not (self.composite or self.foreach or self.may_sync)
            and not (self.seeded or self.generator is not None)
        )  # fmt: skip

    def work(self, args, kwargs, out) -> tuple:
        """Return the FLOPs of one call, and the products or fused attention that it consists of.

        All other operations use PyTorch's own formulas. (Its formula for `convolution_backward`
        ignores the groups.)
        """
        key = _shapes(args), _shapes(kwargs.values()) if kwargs else ()
        known = self._work.get(key)
        if known is None:
            if len(self._work) >= MAX_REMEMBERED:
                self._work.clear()
            known = self._work[key] = self._work_of(args, kwargs, out)
        return known

    def _work_of(self, args, kwargs, out):
        if self.attention:
            work = fused_work(self.func, args, kwargs)
            return work.flops, work
        if self.products is None:
            return int(self.formula(*args, **kwargs, out_val=out)), ()
        products = self.products(args, out)
        return flops_of(products), products

    def cost(self, tensors, args, kwargs, outs, out) -> tuple:
        """Return the bytes of one call, and what `work` returns."""
        num_bytes = self.traffic(tensors, outs)
        if self.formula is None:
            return num_bytes, 0, ()
        return num_bytes, *self.work(args, kwargs, out)

    def traffic(self, tensors, outs) -> int:
        """Return the bytes that one call reads and writes, counting each tensor once."""
        if self._counts_all:
            return bytes_of([*outs, *tensors])
        written, name = bytes_of(outs), self.packet_name
        if self.num_outs:
            tensors = tensors[: -self.num_outs]
        if name in _WRITES_ONLY:
            return written
        if name in _GATHERS:
            return 2 * written + bytes_of(tensors[1:])
        if name in _SCATTERS:
            return bytes_of(tensors[1:]) + 2 * bytes_of(tensors[-1:])
        if name == "copy_":
            return written + bytes_of(tensors[1:2])
        return written + bytes_of(tensors)

    def peak(self, dtype, gpu) -> str:
        """Return the key in `GPU.flops` of the peak for this operation on data of `dtype`."""
        return precision.peak(gpu, self.name, dtype, self.peak_of(dtype))


_OTHER_TYPES = {
    "_scaled_mm": precision.of_scaled_products,
    "_scaled_mm_v2": precision.of_scaled_products,
    "_scaled_grouped_mm": precision.of_scaled_products,
    "_scaled_grouped_mm_v2": precision.of_scaled_products,
    "_int_mm": precision.of_integer_products,
}


def _peak_of(op):
    if op.attention:
        return precision.of_attention
    if "conv" in op.packet_name:
        return precision.of_convolutions
    return _OTHER_TYPES.get(op.packet_name, precision.of_products)


def _histc(x, *bins):
    """Count integers, too, as CUDA does and the CPU does not."""
    if x.is_floating_point():
        return torch.histc(x, *bins)
    return torch.histc(x.double(), *bins).to(x.dtype)


def _python_function(func):
    """Return PyTorch's Python function for an operation (`torch.relu`) if it is equivalent.

    Its argument parser is generated C++ code, which saves half a microsecond or more. But it picks
    an overload by its arguments and has different defaults for some (no ``reduction``). So use it
    only if there is one overload, and all defaults are false or None.
    """
    name, packet = func._overloadname, func.overloadpacket
    only_overload = [o for o in packet.overloads() if not o.endswith("out")] == [name]
    of_tensors = name == "Tensor" and torch.Tag.pointwise in func.tags  # numbers become tensors
    special = any(
        a.name == "device" or (not a.kwarg_only and a.has_default_value() and a.default_value)
        for a in func._schema.arguments
    )
    if func.namespace != "aten" or special or not (only_overload or of_tensors):
        return None
    return getattr(torch._C._VariableFunctions, packet.__name__, None)


class _Ops(dict):
    def __missing__(self, func):
        op = self[func] = Op(func)
        return op


lookup = _Ops().__getitem__  # the `Op` of an `OpOverload`, made once


def signature(values) -> tuple:
    """Return what the shapes and the cost of a call depend on, as a dictionary key."""
    return tuple([
        (v.shape, v.stride(), v.storage_offset(), v.dtype, v.untyped_storage().nbytes())
        if isinstance(v, torch.Tensor)
        else signature(v) if type(v) in (list, tuple) else (type(v), v)
        for v in values
    ])  # fmt: skip


def _shapes(values):
    """Return what the FLOPs of a call depend on: shapes, but not dtypes and strides."""
    return tuple([
        v.shape if isinstance(v, torch.Tensor)
        else _shapes(v) if type(v) in (list, tuple) else (type(v), v)
        for v in values
    ])  # fmt: skip


def bytes_of(tensors):
    """Return the total bytes of tensors, without those that an expanded tensor repeats."""
    total = 0
    for tensor in tensors:
        own = tensor.nbytes
        if not tensor.is_contiguous():  # it may repeat elements: its storage is all there is
            own = min(own, tensor.untyped_storage().nbytes())
        total += own
    return total


def _alias(schema, returned):
    """Return position and name of the argument whose memory a result shares, or None."""
    info = returned.alias_info
    if info is None:
        return None
    for i, argument in enumerate(schema.arguments):
        other = argument.alias_info
        if other is not None and other.before_set & info.before_set:
            return i, argument.name
    for i, argument in enumerate(schema.arguments):
        if argument.alias_info is not None:
            return i, argument.name
    return None


def tensors_of(op, args, kwargs):
    """Return the tensors whose values one call reads, and those that it changes."""
    reads, writes = [], []
    for i, argument in enumerate(op.func._schema.arguments):
        value = args[i] if i < len(args) else kwargs.get(argument.name)
        found = writes if i in op.changed else reads
        found += [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    if op.packet_name.endswith("_like") or op.packet_name.startswith("new_"):
        reads = []  # uses only its shape
    return reads, writes

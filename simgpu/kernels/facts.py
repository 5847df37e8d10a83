"""The facts about each PyTorch operation that its schema states, and its kernel."""

import torch
from torch.utils._pytree import tree_leaves

from simgpu.kernels import half_products
from simgpu.kernels.precision import refusal
from simgpu.kernels.table import REGISTERED, kernel_of
from simgpu.kernels.traffic import bytes_of

aten = torch.ops.aten

_UNDECLARED_VIEWS = {"_unsafe_view", "lift_fresh", "lift"}
MAX_REMEMBERED = 20_000  # entries of each cache of shapes or costs


class Op:
    """The facts about one operation (an `OpOverload`) that all its calls share.

    Attributes
    ----------
    kernel : Kernel or None
        What it costs (``table.py``); None if it launches nothing.
    makes, makes_one : bool
        Whether its results are in new memory, and are one.
    simple : bool
        Whether it makes one tensor, whose shape follows from those of its inputs, and draws no
        random numbers: such operations take a fast path.
    stated : bool
        Whether the table says more of its cost than that it moves each tensor once.
    """

    __slots__ = (
        "_work", "aliases", "call", "changed", "composite", "foreach", "full_name", "func",
        "generator", "inplace_view", "kernel", "makes", "makes_one", "may_sync", "mutable", "name",
        "num_outs", "num_returns", "packet_name", "pointwise", "schema_name", "seeded", "simple",
        "stated", "syncs", "view",
    )  # fmt: skip

    def __init__(self, func):
        schema, tags = func._schema, set(func.tags)
        self.func, self.schema_name = func, schema.name
        self.full_name = str(func.overloadpacket)  # such as aten.add
        self.packet_name = func.overloadpacket.__name__
        self.name = self.packet_name.rstrip("_")
        self.pointwise = torch.Tag.pointwise in tags
        self.foreach = self.packet_name.startswith("_foreach")
        self._see_memory(schema, tags)
        self._see_values(func, tags)
        self._see_kernel(func, tags)

    def _see_memory(self, schema, tags):
        """Find which arguments it changes, and whose memory its results share."""
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

    def _see_values(self, func, tags):
        """Find whether it draws random numbers, and whether shapes depend on values."""
        arguments = func._schema.arguments
        self.generator = next((i for i, a in enumerate(arguments) if a.name == "generator"), None)
        self.seeded = torch.Tag.nondeterministic_seeded in tags and self.generator is None
        self.syncs = self.packet_name != "index" and bool(
            tags & {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
        )
        self.may_sync = self.syncs or self.packet_name == "index"
        # In inference mode these arrive undecomposed; otherwise PyTorch decomposes them itself.
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
        self.composite = has_kernel(func.name(), "CompositeImplicitAutograd") and not (
            has_kernel(func.name(), "CPU")
        )

    def _see_kernel(self, func, tags):
        """Find its kernel, and how it is computed."""
        is_view = self.view or torch.Tag.inplace_view in tags
        self.kernel = None if is_view else kernel_of(func)
        self.makes = self.kernel is not None and not self.mutable
        self.makes_one = self.makes and self.num_returns == 1
        # The C++ function that ``func(...)`` calls, or a faster equivalent.
        self.call = (_python_function(func) if self.makes_one else None) or func._op
        if self.packet_name == "histc":
            self.call = _histc
        if half_products.is_product(func):
            self.call = half_products.through_float32(self.call)
        self.set_kernel(self.kernel)
        self.simple = (
            self.makes_one and str(func._schema.returns[0].type) == "Tensor"
            and not (self.kernel.bytes or self.num_outs)
            and not (self.composite or self.foreach or self.may_sync)
            and not (self.seeded or self.generator is not None)
        )  # fmt: skip

    def set_kernel(self, kernel) -> None:
        """Let it cost what a `Kernel` says."""
        self.kernel, self._work = kernel, {}
        self.stated = kernel is not None and bool(kernel.work or kernel.bytes)

    def work(self, args, kwargs, out) -> tuple:
        """Return the FLOPs of one call, and the products or fused attention that it consists of.

        They are remembered by the shapes of the arguments.
        """
        key = _shapes(args), _shapes(kwargs.values()) if kwargs else ()
        known = self._work.get(key)
        if known is None:
            if len(self._work) >= MAX_REMEMBERED:
                self._work.clear()
            known = self.kernel.work(self.func, args, kwargs, out)
            if not _depends_on_strides(args):
                self._work[key] = known
        return known

    def cost(self, tensors, args, kwargs, outs, out) -> tuple:
        """Return the bytes of one call, and what `work` returns."""
        num_bytes = self.traffic(tensors, args, kwargs, outs, out)
        if self.kernel.work is None:
            return num_bytes, 0, ()
        return num_bytes, *self.work(args, kwargs, out)

    def traffic(self, tensors, args, kwargs, outs, out) -> int:
        """Return the bytes that one call reads and writes."""
        if self.num_outs:
            tensors = tensors[: -self.num_outs]
        if self.kernel.bytes is None:
            return bytes_of([*outs, *tensors])
        return self.kernel.bytes(tensors, outs, args, kwargs, out)

    def peak(self, tensors, gpu) -> str:
        """Return the key in `GPU.flops` of the peak at which one call computes."""
        precision, dtype = self.kernel.precision, tensors[0].dtype
        if not dtype.is_floating_point:  # such as indices, which nothing multiplies
            dtype = next((t.dtype for t in tensors if t.dtype.is_floating_point), dtype)
        key = precision.peaks.get(dtype, precision.other)
        if dtype is torch.float32 and precision.rounds is not None and precision.rounds():
            key = "tf32"
        if key in gpu.flops:
            return key
        raise refusal(gpu, self.name, dtype, key)


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


_ops = _Ops()
lookup = _ops.__getitem__  # the `Op` of an `OpOverload`, made once


def register(name, kernel) -> None:
    """Let all overloads of an operation, ``"library::name"``, cost what a `Kernel` says."""
    REGISTERED[name] = kernel
    for op in list(_ops.values()):
        if op.schema_name == name:
            op.set_kernel(kernel)


def signature(values) -> tuple:
    """Return what the shapes and the cost of a call depend on, as a dictionary key."""
    return tuple([
        (v.shape, v.stride(), v.storage_offset(), v.dtype, v.untyped_storage().nbytes())
        if isinstance(v, torch.Tensor)
        else signature(v) if type(v) in (list, tuple) else (type(v), v)
        for v in values
    ])  # fmt: skip


def _shapes(values):
    """Return what the FLOPs of a call depend on: shapes, but not dtypes and strides.

    How fast they are depends on strides, too, if there are odd ones (`_depends_on_strides`).
    """
    return tuple([
        v.shape if isinstance(v, torch.Tensor)
        else _shapes(v) if type(v) in (list, tuple) else (type(v), v)
        for v in values
    ])  # fmt: skip


def _depends_on_strides(values):
    """Return whether a matrix may have rows of an odd number of elements."""
    return any(
        n % 2 for v in values if isinstance(v, torch.Tensor) and v.dim() >= 2 for n in v.shape[-2:]
    )


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

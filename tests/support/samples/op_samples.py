"""PyTorch's own samples of its operations, on the CPU and on simulated GPUs in several layouts."""

import itertools
import platform
import random
import sys
import types
import unittest
import warnings
from functools import cache
from unittest import mock

import numpy
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves, tree_map_only

import simgpu as sim

platform.platform()  # PyTorch asks it, which would start a process in a test; it is kept
INTERNAL = "torch.testing._internal"
LAYOUTS = ("plain", "strided", "channels_last")


@cache
def ops():
    """Return PyTorch's operations that have samples, by name; to import them takes seconds."""
    # They come with its test classes, whose base is in a package that nobody needs here.
    stand_in = sys.modules.setdefault("expecttest", types.ModuleType("expecttest"))
    stand_in.TestCase = getattr(stand_in, "TestCase", unittest.TestCase)
    with (
        warnings.catch_warnings(),
        # They also forbid, for good, to set PyTorch's flags such as those of TF32.
        mock.patch.object(torch.backends, "disable_global_flags"),
    ):
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

    return {f"{op.name}.{op.variant_test_name}".rstrip("."): op for op in op_db}


def samples(name, dtype, count):
    """Return the first `count` samples of an operation.

    There are none of a type that the CPU does not take, or of integers where CUDA takes none.
    """
    op = ops()[name]
    floating = dtype.is_floating_point or dtype.is_complex
    if dtype not in op.supported_dtypes("cpu"):
        return []
    if not floating and dtype not in op.supported_dtypes("cuda"):
        return []
    needs_grad = op.supports_autograd and floating and dtype in op.supported_backward_dtypes("cpu")
    seed()
    # PyTorch looks for its own test in the list of callers, which pytest makes long.
    no_test = {"extract_test_fn": lambda: None}
    with (
        mock.patch.multiple(f"{INTERNAL}.common_utils", **no_test, set_rng_seed=seed),
        mock.patch.multiple(f"{INTERNAL}.opinfo.core", **no_test),
    ):
        found = op.sample_inputs("cpu", dtype, requires_grad=needs_grad)
        return list(itertools.islice(found, count))


def seed(number=0):
    """Seed all generators; `torch.manual_seed` also keeps a list of its callers, each time."""
    random.seed(number)
    numpy.random.seed(number)  # noqa: NPY002  (some samples are drawn by it)
    torch.default_generator.manual_seed(number)
    if hasattr(torch, "sim"):
        torch.sim.manual_seed_all(number)


def place(x, layout, device):
    """Return a leaf like `x` on a device, in a layout."""
    x, needs_grad = x.detach(), x.requires_grad
    if layout == "strided" and x.dim():
        twice = torch.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype=x.dtype)
        twice[..., ::2] = x
        return twice.to(device)[..., ::2].detach().requires_grad_(needs_grad)
    if layout == "channels_last" and x.dim() == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    return x.to(device, copy=True).requires_grad_(needs_grad)


def run(name, sample, layout, device):
    """Return an operation's results and the gradients of their sum."""
    given = sample.input, sample.args, sample.kwargs
    first, args, kwargs = tree_map_only(torch.Tensor, lambda t: place(t, layout, device), given)
    if device != "cpu":
        sim.reset()
        kwargs = {k: device if k == "device" else v for k, v in kwargs.items()}
    seed(5)
    leaves = [t for t in tree_leaves((first, args, kwargs)) if isinstance(t, torch.Tensor)]
    leaves = [t for t in leaves if t.requires_grad and t.is_leaf]
    with sdpa_kernel(SDPBackend.MATH):  # products and a softmax, not a fused kernel
        outs = ops()[name](first, *args, **kwargs)
    outs = [o for o in tree_leaves(outs) if isinstance(o, torch.Tensor)]
    ends = [o for o in outs if o.requires_grad]
    if ends and leaves:
        ones = [torch.ones_like(o) for o in ends]
        grads = torch.autograd.grad(ends, leaves, ones, allow_unused=True)
        outs += [g for g in grads if g is not None]
    return outs


def layout_of(tensor, with_strides):
    """Return shape and type, and the strides that say something."""
    strides = zip(tensor.shape, tensor.stride(), strict=True)
    strides = tuple(s for n, s in strides if n > 1) if tensor.numel() and with_strides else ()
    return tuple(tensor.shape), tensor.dtype, strides


def same_values(a, b, tolerance):
    """Whether two tensors are equal: to the bit, or within a relative tolerance."""
    a, b = a.detach().resolve_conj(), b.detach().resolve_conj()
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.is_floating_point or a.dtype.is_complex:
        return torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    return torch.equal(a, b)


def compare(name, sample, layout, tolerance, strides, as_on_the_cpu):
    """Compare a sample on the CPU, on simulated GPUs and on shapes; return what differs.

    The strides of results on simulated GPUs are those of shapes if `strides`, and those of the CPU
    if `as_on_the_cpu`.

    None: the CPU itself refuses it, or it needs values (which is refused where there are none).
    """
    try:
        expected = run(name, sample, layout, "cpu")
    except (RuntimeError, ValueError, TypeError, IndexError):
        return None
    (device,) = sim.configure(1)
    outs = run(name, sample, layout, device)
    sim.synchronize()
    real = sim.now(), sim.trace(), sim.max_memory_allocated(device)
    seen = [layout_of(o, strides) for o in outs]
    differences = []
    for ours, cpus in zip(outs, expected, strict=True):
        if layout_of(ours, as_on_the_cpu) != layout_of(cpus, as_on_the_cpu):
            differences.append("the CPU's layouts")
            break
    if not all(same_values(a, b.cpu(), tolerance) for a, b in zip(expected, outs, strict=True)):
        differences.append("the CPU's values")
    (device,) = sim.configure(1, numerics=False)
    try:
        outs = run(name, sample, layout, device)
    except RuntimeError as error:
        return differences if "numerics=False" in str(error) else [*differences, str(error)]
    sim.synchronize()
    shapes = sim.now(), sim.trace(), sim.max_memory_allocated(device)
    if [layout_of(o, strides) for o in outs] != seen:
        differences.append("layouts without values")
    differences += [
        f"{what} without values: {b!r:.300} instead of {a!r:.300}"
        for what, a, b in zip(("clock", "trace", "peak bytes"), real, shapes, strict=True)
        if a != b
    ]
    return differences

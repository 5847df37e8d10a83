"""Charging work on CPU tensors to the simulated host clock."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from simgpu.backend.conj_neg_bits import compute
from simgpu.backend.ops import lookup, tensors_of
from simgpu.backend.pinned import is_placeholder, placeholder, poison
from simgpu.backend.tensor import META, SimTensor, shapes_only
from simgpu.clock import current
from simgpu.hardware import CPU, find_cpu
from simgpu.kernels.precision import on_host
from simgpu.naming import is_ordinary


class host_ops(TorchDispatchMode):  # noqa: N801  (used like a function)
    """Charge operations on CPU tensors inside a ``with`` block to the simulated host clock.

    Outside such a block they take no simulated time: there, the host only launches and waits. An
    operation takes ``op_overhead + max(FLOPs / peak, bytes / bandwidth)`` by the CPU's spec, and
    the host does nothing else meanwhile, while devices continue with the work issued so far.

    If the machine keeps shapes only, so do operations on floating-point CPU tensors in the block:
    their results are NaN and take no memory. Those on scalars, such as an optimiser's step count,
    are computed.

    Parameters
    ----------
    cpu : str or CPU
        Name of a preset (`simgpu.CPUS`) or a spec.

    Raises
    ------
    ValueError
        If there is no preset of that name.

    Examples
    --------
    >>> import torch
    >>> import simgpu as sim
    >>> (device,) = sim.configure(1)
    >>> x = torch.ones(500, 500)
    >>> with sim.host_ops("laptop4"):
    ...     y = x @ x
    >>> [(span.engine, span.name, span.flops) for span in sim.trace()]
    [('cpu', 'mm', 250000000)]
    """

    def __init__(self, cpu: str | CPU = "server16"):
        super().__init__()
        self.cpu = find_cpu(cpu)

    @property
    def machine(self):
        """The machine in use, whose host clock is charged."""
        return current.current_machine()

    def __enter__(self):
        _ = self.machine  # an error if there is none
        return super().__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run one operation, and charge it if all its tensors are on the CPU."""
        kwargs = kwargs or {}
        leaves = tree_leaves((args, kwargs))
        inputs = [t for t in leaves if isinstance(t, torch.Tensor)]
        device = kwargs.get("device")
        if (
            any(isinstance(t, SimTensor) or t.device.type != "cpu" for t in inputs)
            or (device is not None and (not is_ordinary(device) or device.type != "cpu"))
        ):  # fmt: skip
            return func(*args, **kwargs)
        op = lookup(func)
        machine = self.machine
        if not machine.numerics and _is_on_shapes(op, inputs, args, kwargs):
            out, seen_in, seen_out = _run_on_shapes(op, inputs, args, kwargs)
        else:
            out = compute(func, args, kwargs, inputs)
            seen_in = inputs
            seen_out = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
        if op.kernel and (seen_in or seen_out):
            flops = op.work(args, kwargs, out)[0] if op.formula else 0
            num_bytes = op.traffic(seen_in, seen_out)
            dtype = on_host(self.cpu.flops, op.peak_of((seen_in or seen_out)[0].dtype))
            machine.compute_on_host(
                op.name, self.cpu.seconds(flops, num_bytes, dtype), flops, num_bytes
            )
        return out


def _is_on_shapes(op, inputs, args, kwargs):
    """Whether only the shapes of an operation on host tensors are computed."""
    if not inputs:  # a factory, or an operation without tensors, such as the profiler's marks
        if not any("Tensor" in str(result.type) for result in op.func._schema.returns):
            return False
        made = op.func(*args, **_on_meta(kwargs))
        return any(t.dtype.is_floating_point for t in tree_leaves(made))
    if not any(t.dtype.is_floating_point for t in inputs):
        return False
    return any(t.dim() for t in inputs) or (op.syncs and any(t.isnan() for t in inputs))


def _on_meta(kwargs):
    return {**{k: v for k, v in kwargs.items() if k != "generator"}, "device": META}


def _run_on_shapes(op, inputs, args, kwargs):
    """Compute the shapes of one operation; return the result, and what it reads and writes."""
    if op.syncs:
        raise shapes_only(op.name)
    to_meta = {id(t): torch.empty(t.shape, dtype=t.dtype, device=META) for t in inputs}
    meta_args, meta_kwargs = tree_map_only(
        torch.Tensor, lambda t: to_meta[id(t)], (args, dict(kwargs))
    )
    meta_kwargs.pop("generator", None)
    if "device" in meta_kwargs or not inputs:
        meta_kwargs = _on_meta(meta_kwargs)
    meta_out = op.func(*meta_args, **meta_kwargs)
    seen_out = [t for t in tree_leaves(meta_out) if isinstance(t, torch.Tensor)]
    if op.mutable:
        for changed in tensors_of(op, args, kwargs)[1]:
            if not is_placeholder(changed):
                poison(changed)
        written = {id(m): t for t, m in ((t, to_meta[id(t)]) for t in inputs)}
        out = tree_map_only(torch.Tensor, lambda t: written.get(id(t), t), meta_out)
    else:
        out = tree_map_only(torch.Tensor, placeholder, meta_out)
    return out, list(to_meta.values()), seen_out

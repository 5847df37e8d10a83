"""What a compiler has one kernel for and eager PyTorch has not, such as FlexAttention.

The separate operations compute the values, unseen: they take no time and no memory.
"""

from types import SimpleNamespace

from torch.utils._pytree import tree_leaves, tree_map_only

from simgpu.backend.tensor import SimTensor
from simgpu.kernels.table import ATTENTION, Kernel


class _Operation:
    """Stands for an `Op` on a tape: a kernel of its own that makes new tensors."""

    kernel, mutable, foreach = Kernel(ATTENTION), False, False

    def __init__(self, name, num_returns):
        self.name, self.num_returns, self.aliases = name, num_returns, (None,) * num_returns


class _Nowhere:
    """A sink that drops kernels."""

    has_constants = True

    def __init__(self, device):
        self.next = device.sink

    def launch(self, *kernel, **facts):
        """Drop a kernel."""

    def settle(self, read=None):
        """Hold nothing back."""


class OneKernel:
    """Lets a device do in one kernel what several operations compute, inside a compiled region.

    Parameters
    ----------
    device : Device
    name : str
        What the kernel is called.
    forward, backward : tuple
        The FLOPs of each pass, the key of their peak, and the `FusedAttention` that they are.
    """

    def __init__(self, device, name, forward, backward):
        self.device, self.name = device, name
        self.forward, self.backward = forward, backward

    def run(self, function, inputs):
        """Return what a function returns for some tensors, computed unseen, in one kernel.

        Parameters
        ----------
        function : callable
        inputs : sequence of SimTensor
        """
        nowhere = self._hide()
        try:
            parts = [x.view_as(x) for x in inputs]  # so that their gradients are those of this call
            out = function(*parts)
        finally:
            self.device.take_out(nowhere)
        outs = [leaf for leaf in tree_leaves(out) if isinstance(leaf, SimTensor)]
        self._launch(self.name, self.forward, inputs, outs)
        if not outs[0].requires_grad:
            return out
        self._watch_backward(parts, outs)
        # Hooks of these see gradients before those of `outs` do: the region begins first.
        return tree_map_only(SimTensor, lambda t: t.view_as(t), out)

    def _hide(self):
        nowhere = self.device.sink = _Nowhere(self.device)
        return nowhere

    def _launch(self, name, work, inputs, outs):
        flops, peak, products = work
        call = SimpleNamespace(op=self._operation(name, len(outs)), args=tuple(inputs), kwargs={})
        num_bytes = sum(t._data.nbytes for t in (*inputs, *outs))
        results = tuple(outs) if len(outs) > 1 else outs[0]
        self.device.sink.launch(name, flops, num_bytes, peak, products, call, results)

    def _operation(self, name, count):
        """Return what stands for an operation, one for all calls: keys of plans contain it."""
        return _OPERATIONS.setdefault((name, count), _Operation(name, count))

    def _watch_backward(self, parts, outs):
        parts = [x for x in parts if x.requires_grad]
        made, hidden = [], []

        def begin(grad):
            made.clear()
            hidden[:] = [self._hide(), grad]

        def end(grad):
            made.append(grad)
            if len(made) == len(parts):
                nowhere, given = hidden
                self.device.take_out(nowhere)
                name = f"{self.name}_backward"
                self._launch(name, self.backward, (given, *parts, *outs), made)

        outs[0].register_hook(begin)
        for part in parts:
            part.register_hook(end)


_OPERATIONS: dict = {}

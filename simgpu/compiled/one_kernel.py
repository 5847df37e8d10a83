"""What a compiler has one kernel for and eager PyTorch has not, such as FlexAttention.

The separate operations compute the values, unseen: they take no time and no memory.
"""

from types import SimpleNamespace

import torch
from torch.autograd.graph import register_multi_grad_hook
from torch.utils._pytree import tree_leaves, tree_map_only

from simgpu.backend.tensor import SimTensor
from simgpu.clock.memory import rounded
from simgpu.compiled.tape import runs_sum_of_autograd
from simgpu.compiled.uncounted import UncountedMemory
from simgpu.kernels.table import ATTENTION, Kernel

_graph_task = torch._C._current_graph_task_id  # of the backward pass that runs; -1: none
_will_run = torch._C._will_engine_execute_node


class _Operation:
    """Stands for an `Op` on a tape: a kernel of its own that makes new tensors."""

    kernel, mutable, foreach = Kernel(ATTENTION), False, False

    def __init__(self, name, num_returns):
        self.name, self.num_returns, self.aliases = name, num_returns, (None,) * num_returns


class _Nowhere(UncountedMemory):
    """A sink that drops kernels, and a memory whose blocks take none."""

    has_constants = True

    def __init__(self, device):
        super().__init__(device.memory)
        self.device, self.next, self._memory = device, device.sink, device.memory
        self._task = _graph_task()  # the backward pass in which it hides something, or -1
        device.sink = device.memory = self

    def end(self):
        """Let the device see kernels and blocks again."""
        if self.device.memory is self:
            self.device.memory = self._memory
            self.device.take_out(self)

    def _hides(self):
        """Whether it hides what happens now: not autograd's sums, nor what follows an error."""
        if self._task == -1:
            return True
        if _graph_task() == -1:
            self.end()
            return False
        return not runs_sum_of_autograd()

    def launch(self, *kernel, **facts):
        """Drop a kernel."""
        if not self._hides():
            self.next.launch(*kernel, **facts)

    def settle(self, read=None):
        """Hold nothing back."""
        if not self._hides():
            self.next.settle()

    def take(self, block, num_bytes):
        """Give a new block an address."""
        if self._hides():
            super().take(block, num_bytes)
        else:
            block.memory = self._memory
            self._memory.take(block, num_bytes)


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
        nowhere = _Nowhere(self.device)
        try:
            parts = [x.view_as(x) for x in inputs]  # so that their gradients are those of this call
            out = function(*parts)
        finally:
            nowhere.end()
        outs = [leaf for leaf in tree_leaves(out) if isinstance(leaf, SimTensor)]
        self._launch(self.name, self.forward, inputs, outs)
        if not outs[0].requires_grad:
            return out
        self._watch_backward(parts, outs)
        # Hooks of these see gradients before those of `outs` do: the region begins first.
        return tree_map_only(SimTensor, lambda t: t.view_as(t), out)

    def _launch(self, name, work, inputs, outs):
        flops, peak, products = work
        call = SimpleNamespace(op=self._operation(name, len(outs)), args=tuple(inputs), kwargs={})
        num_bytes = sum(t._data.nbytes for t in (*inputs, *outs))
        for block in {id(t._block): t._block for t in outs}.values():
            self.device.memory.take(block, rounded(block.size))
        results = tuple(outs) if len(outs) > 1 else outs[0]
        self.device.sink.launch(name, flops, num_bytes, peak, products, call, results)

    def _operation(self, name, count):
        """Return what stands for an operation, one for all calls: keys of plans contain it."""
        return _OPERATIONS.setdefault((name, count), _Operation(name, count))

    def _watch_backward(self, parts, outs):
        parts, state = [x for x in parts if x.requires_grad], SimpleNamespace()

        def begin(grad):
            state.made, state.given, state.nowhere = [], grad, _Nowhere(self.device)
            state.missing = sum(_will_run(x.grad_fn) for x in parts)
            torch.autograd.Variable._execution_engine.queue_callback(state.nowhere.end)

        def count(grad):
            # Not `grad` itself: autograd would copy what has another user.
            state.made += [] if grad is None else [grad.detach()]
            state.missing -= 1
            if not state.missing:
                state.nowhere.end()
                given = (state.given, *parts, *outs)
                self._launch(f"{self.name}_backward", self.backward, given, state.made)
                vars(state).clear()  # the hooks outlive the pass

        register_multi_grad_hook([t for t in outs if t.requires_grad], begin, mode="any")
        for part in parts:
            part.register_hook(count)


_OPERATIONS: dict = {}

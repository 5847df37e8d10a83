"""Compiled regions: a call of a module or function, and the backward pass of what it made."""

import functools
from dataclasses import dataclass

import torch
from torch.utils._pytree import tree_leaves

from simgpu.backend.tensor import SimTensor
from simgpu.clock import current
from simgpu.compiled.record import Record
from simgpu.compiled.tape import Tape, recording
from simgpu.hardware.assumptions import COMPILED_CALL


@dataclass(frozen=True)
class Settings:
    """How the regions of one `torch.compile` are charged.

    Attributes
    ----------
    one_launch : bool
        Whether the kernels of a graph take the host one launch: ``mode="reduce-overhead"``.
    one_graph : bool
        Whether what breaks a graph is an error: ``fullgraph=True``.
    call_seconds : float
        The host's time for a call: guards, and the runtime of AOTAutograd.
    """

    one_launch: bool = False
    one_graph: bool = False
    call_seconds: float = COMPILED_CALL


class Region:
    """A function whose operations are charged as Inductor's kernels.

    Parameters
    ----------
    function : callable
    settings : Settings, optional

    Attributes
    ----------
    record : Record
        What its calls and backward passes did.

    Examples
    --------
    A chain of operations is one kernel:

    >>> import torch
    >>> import simgpu as sim
    >>> (device,) = sim.configure(1)
    >>> x = torch.ones(1000, 1000, device=device)
    >>> sim.reset()
    >>> y = Region(lambda x: (2 * x + 1).relu())(x)
    >>> [span.name for span in sim.trace() if span.engine == "compute"]
    ['triton_poi_fused_mul_add_relu']
    """

    def __init__(self, function, settings=None):
        functools.update_wrapper(self, function)
        self.settings = settings or Settings()
        self.record = Record()
        self._function = function

    def __call__(self, *args, **kwargs):
        """Call the function; record what it does, and charge it as compiled code."""
        inputs = _simulated((args, kwargs))
        device = inputs[0]._device if inputs else current.find_device()
        outer = recording(device)
        if outer is not None:
            if not outer.backward:
                return self._function(*args, **kwargs)
            outer.flush()  # a forward pass that is done again
        training = torch.is_grad_enabled()
        tape = Tape(device, self.settings, self.record, training)
        tape.start()
        out = outs = None
        try:
            out = self._function(*args, **kwargs)
            outs = _simulated(out)
        finally:
            tape.stop(outs or ())
        if training:
            self._watch_backward(device, inputs, outs)
        return out

    def _watch_backward(self, device, inputs, outs):
        """Record the backward pass, from the first gradient of a result to the last of an input."""
        blocks = {id(t) for t in inputs}
        outs = [t for t in outs if t.requires_grad and id(t) not in blocks]
        if outs:
            inputs = [t for t in inputs if t.requires_grad]
            backward = _Backward(device, self, len(inputs))
            for tensor in inputs:
                tensor.register_hook(backward.count)
            for tensor in outs:
                tensor.register_hook(backward.receive)

    def __get__(self, instance, owner=None):
        """Bind to an instance, as a function does."""
        return self if instance is None else functools.partial(self, instance)


class _Backward:
    """The backward pass of one call of a region, which has gradients for a number of inputs."""

    def __init__(self, device, region, inputs):
        self.device, self.region, self.inputs = device, region, inputs
        self.tape, self.missing = None, 0

    def receive(self, gradient):
        """Begin with the gradient of the first result; note those of the others.

        One that is expanded from fewer elements is copied first, as AOTAutograd does.
        """
        sizes = zip(gradient.shape, gradient.stride(), strict=True)
        if any(n > 1 and step == 0 for n, step in sizes):
            gradient = gradient.contiguous()
        tape = recording(self.device)
        if self.tape is None or self.tape is not tape:
            self.start()
        else:
            tape.see_gradient(gradient)
        return gradient

    def start(self):
        """Record from here on, unless the whole pass is part of a compiled region."""
        last = recording(self.device)
        if last is not None:
            if not last.backward:
                return
            last.stop()
        self.tape = Tape(self.device, self.region.settings, self.region.record, backward=True)
        self.tape.start()
        self.missing = self.inputs
        torch.autograd.Variable._execution_engine.queue_callback(self.stop)

    def count(self, _):
        """Stop after the gradient of the last input."""
        self.missing -= 1
        if not self.missing:
            self.stop()

    def stop(self):
        """Charge what was recorded."""
        tape, self.tape = self.tape, None
        if tape is not None and recording(self.device) is tape:
            tape.stop()


def _simulated(values):
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, SimTensor)]

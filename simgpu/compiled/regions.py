"""Compiled regions: a call of a module or function, and the backward pass of what it made."""

import functools
import sys
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from weakref import WeakMethod

import torch
from torch.utils._pytree import tree_leaves

from simgpu import user_frame
from simgpu.backend.pytorch.replacements import find
from simgpu.backend.tensor import SimTensor
from simgpu.clock import current
from simgpu.clock.current import state
from simgpu.compiled.checkpointed import as_one_call
from simgpu.compiled.record import Record
from simgpu.compiled.tape import Tape, recording
from simgpu.hardware.assumptions import COMPILED_CALL, LAUNCH_OVERHEAD

_graph_task = torch._C._current_graph_task_id  # the number of the backward pass that runs
_next_node = torch._C._autograd._get_sequence_nr  # the number of the next node that autograd makes


MODES = "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"
ONE_LAUNCH = MODES[1:3]  # the kernels of a graph are launched together
_OF_MODULES = vars(torch.nn.Module()).keys() - {"_buffers"}  # what all modules have
_LONGEST = 1000  # list that is searched for tensors


@dataclass(frozen=True)
class Settings:
    """How the regions of one `torch.compile` are charged.

    Attributes
    ----------
    one_launch : bool
        Whether the kernels of a graph take the host one launch: ``mode="reduce-overhead"``.
    one_graph : bool
        Whether what breaks a graph is an error: ``fullgraph=True``.
    most_shapes : int, optional
        For how many shapes of inputs there are kernels: ``dynamic=False``; default: for all.
    call_seconds : float
        The host's time for a call: guards, and the runtime of AOTAutograd.
    launch_seconds : float
        Its time for a kernel, if eager code does not take less: no autograd, and little Python.
    """

    one_launch: bool = False
    one_graph: bool = False
    most_shapes: int | None = None
    call_seconds: float = COMPILED_CALL
    launch_seconds: float = LAUNCH_OVERHEAD


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
        self._shapes = set()  # of inputs that there are kernels for

    def __call__(self, *args, **kwargs):
        """Call the function; record what it does, and charge it as compiled code."""
        inputs = _simulated((args, kwargs))
        if not self._has_kernels(inputs):
            return self._function(*args, **kwargs)
        device = _device_of(inputs)
        outer = recording(device)
        if outer is None:
            return self._call(device, inputs, args, kwargs)
        if not outer.backward:
            return self._function(*args, **kwargs)
        with _paused(outer):  # a forward pass that is done again
            return self._call(device, inputs, args, kwargs)

    def _has_kernels(self, inputs):
        """Whether there are kernels for inputs: PyTorch gives up after some shapes."""
        most, shapes = self.settings.most_shapes, self._shapes
        if most is None:
            return True
        shape = tuple([(t.shape, t.dtype) for t in inputs])
        if shape not in shapes and len(shapes) == most:
            warnings.warn(
                f"{user_frame.line()}: code compiled with dynamic=False has met more than {most} "
                "shapes (torch._dynamo.config.recompile_limit); others run as eager code",
                stacklevel=3,
            )
            return False
        shapes.add(shape)
        return True

    def _call(self, device, inputs, args, kwargs):
        with as_one_call() as do_again:
            return self._record(device, inputs, args, kwargs, do_again)

    def _record(self, device, inputs, args, kwargs, do_again):
        training, first = torch.is_grad_enabled(), _next_node()
        tape = Tape(device, self.settings, self.record, training)
        tape.start()
        tape.give(inputs)
        out = outs = None
        try:
            out = self._function(*args, **kwargs)
            outs = _simulated(out)
        finally:
            known = training and outs is not None
            tape.stop(outs + _left_behind(self._function) if known else None)
        if training:
            _Backward(device, self, first, do_again).watch(inputs, outs)
        return out

    def __get__(self, instance, owner=None):
        """Bind to an instance, as a function does."""
        return self if instance is None else functools.partial(self, instance)


def compile(function, *, mode=None, fullgraph=False):
    """Compile a function or a module for simulated GPUs, as ``simgpu run`` lets `torch.compile` do.

    In a notebook and under `spawn` it takes the place of `torch.compile`, which cannot read
    simulated tensors there. Values are those of eager code, times and memory those of compiled
    code; compiling itself takes no time.

    Parameters
    ----------
    function : callable or torch.nn.Module
    mode : str, optional
        As `torch.compile` has it; with ``"reduce-overhead"`` the host launches a whole graph at
        once, as a CUDA graph.
    fullgraph : bool, default False
        Whether a line that breaks the graph is an error.

    Returns
    -------
    callable or torch.nn.Module
        Takes what the function takes. Of a module it is another one, with the same parameters.

    Examples
    --------
    >>> import torch
    >>> import simgpu as sim
    >>> (device,) = sim.configure(1)
    >>> x = torch.ones(1000, 1000, device=device)
    >>> y = sim.compile(lambda x: (2 * x).relu())(x)
    >>> sim.trace()[-1].name
    'triton_poi_fused_mul_relu'
    """
    if mode not in (None, *MODES):
        raise ValueError(f"mode={mode!r} is none of {', '.join(MODES)}")
    settings = Settings(mode in ONE_LAUNCH, fullgraph)
    return make_compiled(function, functools.partial(Region, settings=settings))


def make_compiled(function, make):
    """Return what `make` makes of a function; of a module the module that `torch.compile` returns.

    Parameters
    ----------
    function : callable or torch.nn.Module
    make : callable
        Takes a function, returns another one.
    """
    if not isinstance(function, torch.nn.Module):
        return make(function)
    compiled = find("torch._dynamo.eval_frame:OptimizedModule")(function, make)
    compiled._torchdynamo_orig_callable = function.forward
    return compiled


class _Watch:
    """Is told when a backward pass begins and ends with what one call has made."""

    _missing, _hooks = 0, ()
    _pass = -1  # the backward pass that was seen last

    def __init__(self, device):
        self.device = device

    def watch(self, inputs, outs):
        """Wait for the first gradient of a result, and for the last of an input."""
        blocks = {id(t) for t in inputs}
        outs = [t for t in outs if t.requires_grad and id(t) not in blocks]
        if outs:
            count = functools.partial(_call, WeakMethod(self._count))  # the graph keeps `self`
            self._hooks = [t.register_hook(count) for t in inputs if t.requires_grad]
            for tensor in outs:
                tensor.register_hook(self._receive)

    def _receive(self, gradient):
        """Begin with the gradient of the first result.

        One that is expanded from fewer elements is copied first, as AOTAutograd does.
        """
        sizes = zip(gradient.shape, gradient.stride(), strict=True)
        if any(n > 1 and step == 0 for n, step in sizes):
            gradient = gradient.contiguous()
        if self._pass == _graph_task():
            self.see(gradient)
        else:
            self._pass, self._missing = _graph_task(), len(self._hooks)
            self.start(gradient)
        return gradient

    def see(self, gradient):
        """See the gradient of another result."""

    def _count(self):
        self._missing -= 1
        if not self._missing:
            self.stop()

    def start(self, gradient):
        """Begin with the gradient of the first result."""

    def stop(self):
        """End, at the latest with the whole pass."""
        self.__del__()

    def __del__(self):
        """Remove hooks of inputs: one that is a leaf would collect those of each call."""
        while self._hooks:
            self._hooks.pop().remove()


class _Backward(_Watch):
    """Records the backward pass of one call of a region."""

    def __init__(self, device, region, first, do_again):
        super().__init__(device)
        self.region, self.first, self.do_again, self.tape = region, first, do_again, None

    def start(self, gradient):
        """Record from here on, unless the whole pass is part of a compiled region."""
        last = recording(self.device)
        if last is not None:
            if not last.backward:
                return
            last.stop()
        if self.do_again is not None:  # a checkpoint around the region, with eager code beside it
            self.do_again()
        settings, record = self.region.settings, self.region.record
        self.tape = Tape(self.device, settings, record, backward=True, first=self.first)
        self.tape.start()
        self.tape.give([gradient])
        torch.autograd.Variable._execution_engine.queue_callback(self.stop)

    def see(self, gradient):
        """Note the gradient of a result that the program may not have used."""
        if self.tape is not None and recording(self.device) is self.tape:
            self.tape.see_gradient(gradient)
            self.tape.give([gradient])

    def stop(self):
        """Charge what was recorded."""
        super().stop()
        tape, self.tape = self.tape, None
        if tape is not None and recording(self.device) is tape:
            tape.stop()


class _Outside(_Watch):
    """Keeps the backward pass of one call out of the region around it."""

    tape = None

    def start(self, gradient):
        """Pause."""
        tape = recording(self.device)
        if tape is not None and tape.backward:
            self.tape = tape
            tape.stop()

    def stop(self):
        """Go on."""
        super().stop()
        tape, self.tape = self.tape, None
        if tape is not None and recording(self.device) is None:
            tape.start()


def is_inside() -> bool:
    """Return whether compiled code runs, as `torch.compiler.is_compiling` does while it is traced.

    A backward pass is not traced with the code that it belongs to. PyTorch itself is told that
    nothing is: its optimisers would leave to a compiler what eager operations cannot do. Nor is
    TorchScript, which compiles this function with those that call it, up to its first question.
    """
    return (
        False
        if torch.jit.is_scripting()
        else _is_inside(sys._getframe(1).f_globals.get("__name__", ""))
    )


def _is_inside(asks):
    """Return whether compiled code runs, as the module that `asks` is told."""
    if state.machine is None or asks.partition(".")[0] == "torch":
        return False
    tape = recording(current.find_device())
    return tape is not None and not tape.backward


def break_graph(what) -> None:
    """End the graph that is recorded, if any: a compiler cannot trace a call.

    Parameters
    ----------
    what : str
        What is called, such as ``"print()"``.
    """
    tape = recording(current.find_device()) if state.machine is not None else None
    if tape is not None:
        tape.break_graph(what)


def outside(function):
    """Return a function that runs as eager code where a compiled region calls it.

    Parameters
    ----------
    function : callable
    """

    @functools.wraps(function)
    def call(*args, **kwargs):
        inputs = _simulated((args, kwargs))
        device = _device_of(inputs)
        tape = recording(device)
        if tape is None:
            return function(*args, **kwargs)
        tape.settle()
        with _paused(tape):
            out = function(*args, **kwargs)
        if torch.is_grad_enabled():
            _Outside(device).watch(inputs, _simulated(out))
        return out

    return call


def at_end_of_graph(function):
    """Return a function before which a graph ends, which returns what the function takes.

    Parameters
    ----------
    function : callable
        A hook of a module, such as FSDP's: what was computed and is not passed to it, autograd
        alone has kept.
    """

    @functools.wraps(function)
    def call(*args, **kwargs):
        given = _simulated((args, kwargs))
        tape = recording(_device_of(given))
        if tape is not None and not tape.backward:
            tape.end_graph(given)
        return function(*args, **kwargs)

    return call


@contextmanager
def _paused(tape):
    tape.stop()
    try:
        yield
    finally:
        tape.start()


def _call(weak_method, _):
    method = weak_method()
    if method is not None:
        method()


def _left_behind(function):
    """Return tensors that a function may have left for later, which it then returns, too.

    They are attributes of its modules or its object or variables around it, or in lists there.
    """
    values = []
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # it is empty
            values.append(cell.cell_contents)
    owner = getattr(function, "__self__", function)
    for part in owner.modules() if isinstance(owner, torch.nn.Module) else [owner]:
        attributes = getattr(part, "__dict__", {})
        values += [attributes[name] for name in attributes.keys() - _OF_MODULES]
    lists = [v.values() if type(v) is dict else v for v in values if type(v) in (dict, list, tuple)]
    values += [value for found in lists if len(found) <= _LONGEST for value in found]
    return [value for value in values if isinstance(value, SimTensor)]


def _device_of(tensors):
    return tensors[0]._device if tensors else current.find_device()


def _simulated(values):
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, SimTensor)]

"""Compilers and tracers: ``torch.compile`` makes a `Region`; what must trace is refused.

A compiled module is PyTorch's own `OptimizedModule`, so that programs find ``_orig_mod``, and the
keys of its ``state_dict`` begin with ``_orig_mod.`` as on real GPUs; its ``forward`` is a region.
So is a compiled function. What `torch.compile` refuses at once, it refuses here, too.
"""

import functools
import sys

import torch
from torch.utils._pytree import tree_leaves

from simgpu.backend.pytorch.replacements import find
from simgpu.backend.tensor import SimTensor
from simgpu.clock.hooks import HOOKS
from simgpu.compiled.regions import (
    MODES,
    ONE_LAUNCH,
    Region,
    Settings,
    at_end_of_graph,
    is_inside,
    make_compiled,
    outside,
)
from simgpu.naming import is_simulated
from simgpu.run.cuda import flex_attention, refused

NOTE = "torch.compile takes no time here: times are those once everything is compiled"
EAGER_NOTE = "what the script compiles runs as eager code (--eager)"
_COMPILE = "torch:compile", "torch.nn:Module.compile"
_LIMIT = "torch._dynamo.config:recompile_limit"
_DISABLE = "torch.compiler:disable", "torch._dynamo:disable"
_FSDP = "torch.distributed.fsdp."
_ASK = "torch.compiler:is_compiling", "torch.compiler:is_dynamo_compiling"
_EAGER = "simulated GPUs run one operation at a time; call the function or the module itself"
_NEW_FAKE = "torch._subclasses.fake_tensor:FakeTensor.__new__"
_FAKE = "torch._subclasses.fake_tensor:FakeTensorMode.from_tensor"


class Compiled:
    """What a script has compiled.

    Parameters
    ----------
    warn : callable
        Is told, once, what the times of compiled code mean, and what runs as eager code.
    eager : bool
        Whether to run it as eager code.

    Attributes
    ----------
    notes : list of str
        What was said; nothing if it has compiled nothing.
    records : list of Record
        What each region did.
    """

    def __init__(self, warn, eager):
        self.warn, self.eager = warn, eager
        self.notes, self.records = [], []

    @property
    def note(self):
        """What the times of compiled code mean."""
        return EAGER_NOTE if self.eager else NOTE

    def compile(
        self, model=None, *, backend="inductor", mode=None, options=None, disable=False,
        fullgraph=False, dynamic=None, **_,
    ):  # fmt: skip
        """`torch.compile`: return a `Region`, for a module in an `OptimizedModule`."""
        _check(backend, mode, options)
        if model is None:
            given = {"backend": backend, "mode": mode, "options": options, "disable": disable}
            return functools.partial(self.compile, fullgraph=fullgraph, dynamic=dynamic, **given)
        if disable:
            return model
        one_launch = mode in ONE_LAUNCH or bool((options or {}).get("triton.cudagraphs"))
        most_shapes = find(_LIMIT) if dynamic is False else None
        settings = Settings(one_launch, fullgraph, most_shapes)
        make = functools.partial(self._region, backend, settings)
        return make_compiled(model, make)

    def _region(self, backend, settings, function):
        self._say(self.note)
        if backend != "inductor":
            self._say(f"torch.compile with backend={backend!r} runs as eager code here")
        if self.eager or backend != "inductor":
            return function
        region = Region(function, settings)
        self.records.append(region.record)
        return region

    def _say(self, note):
        if note not in self.notes:
            self.notes.append(note)
            self.warn(note)


def _check(backend, mode, options):
    """Refuse what `torch.compile` refuses when it is called."""
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    if backend != "inductor":
        find("torch._dynamo.backends.registry:lookup_backend")(backend)  # raises InvalidBackend


def _compile_module(compiled):
    def compile(self, *args, **kwargs):
        """`torch.nn.Module.compile`, which changes no name."""
        self._compiled_call_impl = compiled.compile(self._call_impl, *args, **kwargs)

    return compile


def _disable(own):
    """Make functions and modules run outside of regions; a class is left to PyTorch.

    So is what PyTorch disables of its own code, such as `torch.utils.checkpoint`: its compiler
    knows better. But it does not know FSDP's hooks: graphs end there.
    """

    @functools.wraps(own)
    def disable(fn=None, recursive=True, *, reason=None, **private):
        asks = sys._getframe(1).f_globals.get("__name__", "")
        if asks.startswith(_FSDP):
            return at_end_of_graph(fn)
        if asks.partition(".")[0] == "torch":
            return own(fn, recursive, reason=reason, **private)
        if fn is None:
            return functools.partial(disable, recursive=recursive, reason=reason)
        if isinstance(fn, torch.nn.Module):
            return make_compiled(fn, outside)
        if not recursive or isinstance(fn, type) or not callable(fn):
            return own(fn, recursive, reason=reason)
        return outside(fn)

    return disable


def _refuse_simulated(own, what):
    """Refuse simulated tensors among the arguments."""

    @functools.wraps(own)
    def checked(*args, **kwargs):
        if any(isinstance(leaf, SimTensor) for leaf in tree_leaves((args, kwargs))):
            raise refused.error(what, _EAGER)
        return own(*args, **kwargs)

    return checked


def _refuse_on_cuda(new):
    """Refuse fake tensors on simulated GPUs: autograd would end the process (`std::terminate`)."""

    @functools.wraps(new)
    def make(cls, fake_mode, elem, device, *args, **kwargs):
        if is_simulated(device):
            raise refused.error(f"FakeTensorMode with a tensor on {device}", _EAGER)
        return new(cls, fake_mode, elem, device, *args, **kwargs)

    return make


def replacements(compiled) -> dict:
    """Return the replacements; `compiled` is told when a script compiles."""
    from_tensor = find(_FAKE)
    return {
        _COMPILE[0]: compiled.compile,
        **{name: is_inside for name in _ASK},
        _COMPILE[1]: _compile_module(compiled),
        **{name: _disable(find(name)) for name in _DISABLE},
        _NEW_FAKE: staticmethod(_refuse_on_cuda(find(_NEW_FAKE))),
        _FAKE: _refuse_simulated(from_tensor, "tracing (torch.export, FakeTensorMode)"),
        f"{HOOKS}.accepted": frozenset(_COMPILE),
        flex_attention.NAME: flex_attention.make(functools.cache(compiled.warn)),
    }

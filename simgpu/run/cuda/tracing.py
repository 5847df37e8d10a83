"""Compilers and tracers: ``torch.compile`` changes nothing, and what must trace is refused."""

import functools

from torch.utils._pytree import tree_leaves

from simgpu.backend.pytorch.replacements import find
from simgpu.backend.tensor import SimTensor
from simgpu.naming import is_simulated
from simgpu.ranks.pytorch import unsupported
from simgpu.run.cuda import flex_attention, refused

NOTE = "torch.compile is not simulated: it returns its argument, and the times are those of eager"
_COMPILE = "torch:compile", "torch.nn:Module.compile"
_EAGER = "simulated GPUs run one operation at a time; call the function or the module itself"
_PROFILE = "torch.autograd.profiler:profile.__init__"
_NEW_FAKE = "torch._subclasses.fake_tensor:FakeTensor.__new__"
_FAKE = "torch._subclasses.fake_tensor:FakeTensorMode.from_tensor"


class Compiled:
    """Whether a script has compiled something."""

    def __init__(self, warn):
        self.used, self.warn = False, warn

    def note(self):
        """Note it, and say once what follows."""
        if not self.used:
            self.used = True
            self.warn(NOTE)

    def compile(self, model=None, **_):
        """`torch.compile`: return the argument, or a decorator that returns its own."""
        self.note()
        return (lambda function: function) if model is None else model


def _compile_module(compiled):
    def compile(self, *args, **kwargs):
        compiled.note()

    return compile


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


def _profile_host(init):
    """Make PyTorch's profiler record the host alone: it would look for events of real GPUs."""

    @functools.wraps(init)
    def profile(self, enabled=True, *, use_cuda=False, use_device=None, **kwargs):
        init(self, enabled, **kwargs | {"use_cpu": True})

    return profile


def replacements(compiled) -> dict:
    """Return the replacements; `compiled` is told when a script compiles."""
    from_tensor = find(_FAKE)
    return {
        _COMPILE[0]: compiled.compile,
        _COMPILE[1]: _compile_module(compiled),
        _NEW_FAKE: staticmethod(_refuse_on_cuda(find(_NEW_FAKE))),
        _FAKE: _refuse_simulated(from_tensor, "tracing (torch.export, FakeTensorMode)"),
        _PROFILE: _profile_host(find(_PROFILE)),
        f"{unsupported.__name__}:accepted": {*unsupported.accepted, *_COMPILE},
        flex_attention.NAME: flex_attention.make(functools.cache(compiled.warn)),
    }

"""Compilers and tracers: ``torch.compile`` changes nothing, and what must trace is refused."""

import functools
import importlib.util

from torch.utils._pytree import tree_leaves

from simgpu.backend.pytorch.replacements import find
from simgpu.backend.tensor import SimTensor
from simgpu.ranks.pytorch import unsupported
from simgpu.run.cuda import refused

NOTE = "torch.compile is not simulated: it returns its argument, and the times are those of eager"
_COMPILE = "torch:compile", "torch.nn:Module.compile"
_EAGER = "simulated GPUs run one operation at a time; call the function or the module itself"
_FAKE = "torch._subclasses.fake_tensor:FakeTensorMode.from_tensor"


class Compiled:
    """Whether a script has compiled something."""

    def __init__(self, warn):
        self.used, self._warn = False, warn

    def note(self):
        """Note it, and say once what follows."""
        if not self.used:
            self.used = True
            self._warn(NOTE)

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


def replacements(compiled) -> dict:
    """Return the replacements; `compiled` is told when a script compiles."""
    from_tensor = find(_FAKE)
    flex = "torch.nn.attention.flex_attention"
    found = {
        _COMPILE[0]: compiled.compile,
        _COMPILE[1]: _compile_module(compiled),
        _FAKE: _refuse_simulated(from_tensor, "tracing (torch.export, FakeTensorMode)"),
        f"{unsupported.__name__}:accepted": {*unsupported.accepted, *_COMPILE},
        f"{flex}:flex_attention": refused.function(
            "flex_attention", "use torch.nn.functional.scaled_dot_product_attention"
        ),
    }
    if importlib.util.find_spec("triton"):
        found["triton.runtime.jit:JITFunction.run"] = refused.function(
            "a Triton kernel", "write it with PyTorch's operations; for attention, use "
            "torch.nn.functional.scaled_dot_product_attention"
        )  # fmt: skip
    return found

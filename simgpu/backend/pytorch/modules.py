"""Moving modules: parameters keep their identity, as on CUDA.

PyTorch moves a parameter to CUDA and back by exchanging the data of the `Parameter`. So tied
weights stay tied, and an optimiser created before the move keeps its parameters. Simulated tensors
are of another class, for which PyTorch can swap the contents of two tensors instead. By itself it
does so only on the way *to* a simulated GPU, and not while an autograd graph is alive. Attributes
that a program has set on a parameter stay with it, too: Megatron notes there how it is split.
"""

import functools

import torch

from simgpu.backend.methods import attributes, move_data
from simgpu.backend.pytorch.replacements import find
from simgpu.backend.tensor import SimTensor
from simgpu.clock.current import current_machine
from simgpu.naming import is_simulated

_TRUNCATED = "torch.nn.init:_no_grad_trunc_normal_"


def _keep_identity(apply):
    """Wrap `Module._apply` to swap simulated parameters also if the new ones are on the host."""

    @functools.wraps(apply)
    def apply_and_keep(self, fn, recurse=True):
        if recurse:
            for module in self.children():
                module._apply(fn)
        kept = [(p, attributes(p)) for p in self._parameters.values() if p is not None]
        try:
            return apply_and_swap(self, fn)
        finally:
            for parameter, own in kept:
                vars(parameter).update(own)

    def apply_and_swap(self, fn):
        swap = torch.__future__.get_swap_module_params_on_conversion()
        if swap or not any(isinstance(p, SimTensor) for p in self._parameters.values()):
            return apply(self, fn, recurse=False)
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            return apply(self, fn, recurse=False)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)

    return apply_and_keep


def _refuse_gradient(gradient):
    raise RuntimeError(
        "a module was moved between its forward pass and the backward pass through it; call "
        "backward() before .to(), or run the forward pass again"
    )


def _hooks(tensor):
    return tensor._backward_hooks, tensor._post_accumulate_grad_hooks


def _swap_in_a_graph(swap):
    """Wrap `torch.utils.swap_tensors` to swap simulated tensors that a graph still refers to.

    The graph keeps the former contents; a backward pass through it is refused, as on CUDA. The
    hooks stay with the tensors.
    """

    @functools.wraps(swap)
    def swap_tensors(first, second):
        if not (isinstance(first, SimTensor) or isinstance(second, SimTensor)):
            swap(first, second)
            return
        for tensor in (first, second):
            if tensor.is_leaf and tensor.requires_grad and tensor._use_count() > 1:
                node = torch.autograd.graph.get_gradient_edge(tensor).node
                node.register_prehook(_refuse_gradient)
        hooks = _hooks(first), _hooks(second)
        first.__class__, second.__class__ = second.__class__, first.__class__
        first.__dict__, second.__dict__ = second.__dict__, first.__dict__
        torch._C._swap_tensor_impl(first, second)
        for tensor, own in zip((first, second), hooks, strict=True):
            tensor._backward_hooks, tensor._post_accumulate_grad_hooks = own

    return swap_tensors


def _data_on_any_device(data):
    """Wrap `Tensor.data` so that a host tensor can get the data of one on a simulated GPU."""

    def get(self):
        return data.__get__(self)

    def put(self, other):
        if isinstance(other, SimTensor) and not isinstance(self, SimTensor):
            move_data(self, other)
        else:
            data.__set__(self, other)

    return property(get, put, doc=data.__doc__)


def _draw_once(truncated):
    """Wrap `trunc_normal_` to draw once where no values say which numbers are to be drawn again."""

    @functools.wraps(truncated)
    def draw(tensor, mean, std, a, b, generator=None):
        if not is_simulated(tensor.device) or current_machine().numerics:
            return truncated(tensor, mean, std, a, b, generator)
        with torch.no_grad():
            return tensor.normal_(mean, std, generator=generator)

    return draw


def replacements() -> dict:
    """Return the replacements that move modules to, between and from simulated GPUs, and fill them.

    Where only shapes are kept, what fills them in a loop until all values are right would not end.
    """
    return {
        _TRUNCATED: _draw_once(find(_TRUNCATED)),
        "torch.nn:Module._apply": _keep_identity(torch.nn.Module._apply),
        "torch:Tensor.data": _data_on_any_device(torch.Tensor.data),
        "torch.utils:swap_tensors": _swap_in_a_graph(torch.utils.swap_tensors),
    }

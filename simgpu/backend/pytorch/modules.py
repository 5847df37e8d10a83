"""Moves of modules: parameters keep their identity, as they do on CUDA.

PyTorch moves a parameter to CUDA and back by exchanging what the `Parameter` holds. Tied weights
stay tied that way, and an optimiser made before the move keeps its parameters. Simulated tensors
are of another class, for which PyTorch can do so too: by swapping the contents of two tensors. It
does so of its own accord only on the way *to* a simulated GPU, and not while a graph is alive.
"""

import functools

import torch

from simgpu.backend.tensor import SimTensor


def _keeping_identity(apply):
    """Let `Module._apply` swap simulated parameters also where the new ones are on the host."""

    @functools.wraps(apply)
    def apply_and_swap(self, fn, recurse=True):
        if recurse:
            for module in self.children():
                module._apply(fn)
        swap = torch.__future__.get_swap_module_params_on_conversion()
        if swap or not any(isinstance(p, SimTensor) for p in self._parameters.values()):
            return apply(self, fn, recurse=False)
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            return apply(self, fn, recurse=False)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)

    return apply_and_swap


def _forget(gradient):
    raise RuntimeError(
        "a module was moved between its forward pass and the backward pass through it; call "
        "backward() before .to(), or run the forward pass again"
    )


def _hooks(tensor):
    return tensor._backward_hooks, tensor._post_accumulate_grad_hooks


def _also_in_a_graph(swap):
    """Let `torch.utils.swap_tensors` swap simulated tensors which a graph still refers to.

    The graph keeps the former contents; going back through it is refused, as CUDA refuses it. The
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
                node.register_prehook(_forget)
        hooks = _hooks(first), _hooks(second)
        first.__class__, second.__class__ = second.__class__, first.__class__
        first.__dict__, second.__dict__ = second.__dict__, first.__dict__
        torch._C._swap_tensor_impl(first, second)
        for tensor, own in zip((first, second), hooks, strict=True):
            tensor._backward_hooks, tensor._post_accumulate_grad_hooks = own

    return swap_tensors


def replacements() -> dict:
    """Return what moves modules to, between and from simulated GPUs as is done for CUDA."""
    return {
        "torch.nn:Module._apply": _keeping_identity(torch.nn.Module._apply),
        "torch.utils:swap_tensors": _also_in_a_graph(torch.utils.swap_tensors),
    }

"""Optimizers that look at one number after the other: what each launches, and what it keeps.

Adam runs as one kernel for all parameters (``fused=True``, as torchtitan, nanoGPT and Megatron have
it), SGD as kernels for lists of them (``foreach=True``, PyTorch's default on GPUs), and Adam with
states of 8 bits as one kernel for each parameter, as in bitsandbytes and torchao.
"""

import torch

import simgpu as sim

BLOCK = 256  # numbers of 8 bits that share a scale
SMALL = 4096  # a parameter with fewer numbers keeps states of 32 bits (bitsandbytes' default)


class Adam:
    """Adam in one kernel, its moments in the parameters' type: ``torch.optim.Adam(fused=True)``.

    Parameters
    ----------
    parameters : list of torch.Tensor
        A rank's own part of each.
    """

    kernel = torch._fused_adam_
    decay = 0.0

    def __init__(self, parameters):
        self.parameters = parameters
        self.moments = [[torch.empty_like(p) for p in parameters] for _ in range(2)]
        self.steps = [torch.zeros((), device=p.device) for p in parameters]

    def step(self, gradients):
        """Change the parameters; those without a gradient (None) stay."""
        used = _used(gradients)
        lists = self.parameters, gradients, *self.moments, self.steps
        *tensors, steps = ([each[i] for i in used] for each in lists)
        torch._foreach_add_(steps, 1)
        type(self).kernel(
            *tensors, [], steps, lr=1e-4, beta1=0.9, beta2=0.95, weight_decay=self.decay, eps=1e-8,
            amsgrad=False, maximize=False,
        )  # fmt: skip


class AdamW(Adam):
    """The same with weights that decay: ``torch.optim.AdamW(fused=True)``."""

    kernel = torch._fused_adamw_
    decay = 0.1


class SGD:
    """Gradient descent without a state: ``torch.optim.SGD(foreach=True)``.

    Parameters
    ----------
    parameters
        As for `Adam`.
    """

    def __init__(self, parameters):
        self.parameters = parameters

    def step(self, gradients):
        """Change the parameters; those without a gradient (None) stay."""
        used = _used(gradients)
        torch._foreach_add_(
            [self.parameters[i] for i in used], self._changes(gradients, used), alpha=-1e-2
        )

    def _changes(self, gradients, used):
        return [gradients[i] for i in used]


class Momentum(SGD):
    """The same with one number for each parameter's: ``momentum=0.9``."""

    def __init__(self, parameters):
        super().__init__(parameters)
        self.buffers = [torch.empty_like(p) for p in parameters]

    def _changes(self, gradients, used):
        buffers = [self.buffers[i] for i in used]
        torch._foreach_mul_(buffers, 0.9)
        torch._foreach_add_(buffers, super()._changes(gradients, used))
        return buffers


class AdamW8bit:
    """AdamW whose moments are numbers of 8 bits, with a scale of 32 bits for each `BLOCK` of them.

    One kernel reads a parameter, its gradient, and moments with their scales, and writes all but
    the gradient: bandwidth decides. Small parameters have moments of 32 bits.

    Parameters
    ----------
    parameters
        As for `Adam`.
    """

    def __init__(self, parameters):
        self.parameters = parameters
        self.states = [_moment(p) + _moment(p) for p in parameters]

    def step(self, gradients):
        """Change the parameters; those without a gradient (None) stay."""
        for i in _used(gradients):
            adamw_8bit(self.parameters[i], gradients[i], self.states[i])


def _moment(parameter):
    """Return the tensors of one moment of a parameter."""
    count, device = parameter.numel(), parameter.device
    if count < SMALL:
        return [torch.empty(count, device=device)]
    scales = torch.empty(-(-count // BLOCK), device=device)
    return [torch.empty(count, dtype=torch.uint8, device=device), scales]


@torch.library.custom_op("simgpu_plan::adamw_8bit", mutates_args=("parameter", "state"))
def adamw_8bit(parameter: torch.Tensor, gradient: torch.Tensor, state: list[torch.Tensor]) -> None:
    """Change a parameter and its state, in one kernel; nothing is computed here."""


@adamw_8bit.register_fake
def _(parameter, gradient, state):
    pass


def _bytes(parameter, gradient, state):
    return 2 * (parameter.nbytes + sum(x.nbytes for x in state)) + gradient.nbytes


sim.register_kernel("simgpu_plan::adamw_8bit", bytes=_bytes)


def _used(gradients):
    return [i for i, gradient in enumerate(gradients) if gradient is not None]

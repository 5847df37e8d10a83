"""AdamW whose moments are numbers of 8 bits, in compiled functions, one call a parameter.

What a code stands for is linear here, so that no table is needed.
"""

import torch

BLOCK = 256


def _decode(codes, scales):
    return (codes.float().view(-1, BLOCK) / 127.5 - 1) * scales.view(-1, 1)


def _encode(x, codes, scales):
    largest = x.abs().amax(-1, keepdim=True).clamp(min=1e-12)
    scales.copy_(largest.view(-1))
    codes.copy_(((x / largest + 1) * 127.5).round().view(-1))


@torch.compile
def _update(p, grad, first, first_scales, second, second_scales):
    grad = grad.float().view(-1, BLOCK)
    m = _decode(first, first_scales).lerp(grad, 0.1)
    v = _decode(second, second_scales).lerp(grad.square(), 0.01)
    _encode(m, first, first_scales)
    _encode(v, second, second_scales)
    x = p.view(-1, BLOCK).float() * (1 - 1e-5)
    p.copy_((x - 1e-4 * m / (v.abs().sqrt() + 1e-8)).view_as(p))


class AdamW8bit(torch.optim.Optimizer):
    """Keeps two moments of each parameter in 8 bits, and a scale for each block of them."""

    def __init__(self, parameters):
        super().__init__(parameters, {})
        for p in self.param_groups[0]["params"]:
            count, device = local(p).numel(), p.device
            self.state[p] = [
                torch.zeros(count // share, dtype=dtype, device=device)
                for share, dtype in 2 * ((1, torch.uint8), (BLOCK, torch.float32))
            ]

    @torch.no_grad()
    def step(self):
        """Change the parameters."""
        for p in self.param_groups[0]["params"]:
            _update(local(p), local(p.grad), *self.state[p])


def local(x):
    """Return a rank's own part of a sharded tensor."""
    return x.to_local() if hasattr(x, "to_local") else x

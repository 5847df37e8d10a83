"""AdamW on copies of 32 bits of a model's parameters of 16 bits."""

import torch


class MasterAdamW:
    """Keeps a copy of each parameter in 32 bits, changes it, and copies it back."""

    def __init__(self, parameters, lr=1e-4):
        self.parameters = list(parameters)
        self.masters = [p.detach().float() for p in self.parameters]
        self.adam = torch.optim.AdamW(self.masters, lr=lr, fused=True)

    def gradients(self):
        """Return each gradient in 32 bits."""
        return [p.grad.float() for p in self.parameters]

    def zero_grad(self):
        """Forget the gradients."""
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        """Change the copies by the gradients, and the parameters with them."""
        for master, gradient in zip(self.masters, self.gradients(), strict=True):
            master.grad = gradient
        self.adam.step()
        self.adam.zero_grad()
        torch._foreach_copy_(self.parameters, self.masters)


class BufferedAdamW(MasterAdamW):
    """Adds up gradients in a buffer of 32 bits, as Megatron, nanotron and picotron do."""

    def __init__(self, parameters, lr=1e-4):
        super().__init__(parameters, lr)
        sizes = [p.numel() for p in self.parameters]
        self.buffer = torch.zeros(sum(sizes), device=self.parameters[0].device)
        self.views = {}
        for p, part in zip(self.parameters, self.buffer.split(sizes), strict=True):
            self.views[p] = part.view_as(p)
            p.register_post_accumulate_grad_hook(self.add)

    def add(self, parameter):
        """Add a gradient that has just been computed, and free it."""
        self.views[parameter].add_(parameter.grad)
        parameter.grad = None

    def gradients(self):
        """Return the sums."""
        return [*self.views.values()]

    def zero_grad(self):
        """Begin again."""
        self.buffer.zero_()

"""The highest memory in each part of a step.

From layer to layer memory grows or falls, so its peak is near one end of the layers: behind the
forward pass, where the loss needs memory too, or behind the backward pass, where all gradients are
there. Which of them is higher depends on the number of layers. Each by itself grows in a straight
line with them, so it can be extended.
"""

import torch

PARTS = "forward", "upper layers", "lower layers"  # the last two backward, half of the layers each


class Peaks:
    """Watches a device; `enter` begins a part, and `take` returns the peaks so far.

    Parameters
    ----------
    device : torch.device
    """

    def __init__(self, device):
        self.device, self.part = device, PARTS[0]
        self.highest, self.reserved = dict.fromkeys(PARTS, 0), 0

    def enter(self, part):
        """Begin a part."""
        self._look()
        torch.accelerator.reset_peak_memory_stats(self.device)
        self.part = part

    def watch(self, stage, layers):
        """Enter the parts of a pipeline stage when it runs; `layers` are some of its modules."""
        stage.register_forward_pre_hook(lambda *_: self.enter(PARTS[0]))
        self._behind(layers[-1], PARTS[1])
        if len(layers) > 1:
            self._behind(layers[len(layers) // 2 - 1], PARTS[2])

    def _behind(self, layer, part):
        def begin(grad):
            self.enter(part)

        def hook(_, inputs, output):
            if output.requires_grad:
                output.register_hook(begin)

        layer.register_forward_hook(hook)

    def take(self):
        """Return the most bytes that were allocated in each of `PARTS`, and reserved in all."""
        self._look()
        return *self.highest.values(), self.reserved

    def _look(self):
        now = torch.accelerator.max_memory_allocated(self.device)
        self.highest[self.part] = max(self.highest[self.part], now)
        reserved = torch.accelerator.max_memory_reserved(self.device)
        self.reserved = max(self.reserved, reserved)

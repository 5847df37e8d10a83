"""Small programs that both Inductor and the simulated compiler compile, on any device.

Each function of `PROGRAMS` takes a device, and returns a `Program`. Sizes are such that a kernel
reads and writes megabytes: Inductor's rules depend on them.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from support.inductor import transformers as t
from torch import nn


class Program(NamedTuple):
    """A function to compile, and how to call it.

    Attributes
    ----------
    function : callable
        What is compiled.
    inputs : tuple
        Its arguments.
    loss : callable or None
        Takes what `function` returned; its result is differentiated, outside of what is compiled.
        None for what runs without gradients.
    autocast : bool
        Call `function` under bfloat16 autocast.
    """

    function: Callable
    inputs: tuple
    loss: Callable | None
    autocast: bool = False

    def run(self, compiled):
        """Call a compiled `function`, and run its backward pass."""
        device = next(x for x in self.inputs if isinstance(x, torch.Tensor | list))
        device = (device[0] if isinstance(device, list) else device).device
        with (
            torch.autocast(device.type, torch.bfloat16, enabled=self.autocast),
            torch.set_grad_enabled(self.loss is not None),
        ):
            out = compiled(*self.inputs)
        if self.loss is not None:
            self.loss(out).backward()


def total(x):
    """Return a loss: the sum."""
    return x.sum()


def tokens(device, *shape, below=t.VOCABULARY):
    """Return zeros as token numbers."""
    return torch.zeros(shape, dtype=torch.long, device=device)


def hidden(device, *, grad=True, dtype=torch.float):
    """Return hidden states of a transformer."""
    shape = t.BATCH, t.LENGTH, t.WIDTH
    return torch.ones(shape, device=device, dtype=dtype, requires_grad=grad)


def gpt(device):
    """Two layers of GPT-2 with fused attention, under autocast."""
    with torch.device(device):
        model = t.GPT()
    shape = t.BATCH, t.LENGTH
    inputs = tokens(device, *shape), tokens(device, *shape)
    return Program(model, inputs, lambda out: out[1], autocast=True)


def llama(device):
    """A block of Llama in bfloat16, pairs half a head apart."""
    with torch.device(device):
        model = t.LlamaBlock().to(torch.bfloat16)
    cos, sin = (x.to(torch.bfloat16) for x in t.rotary_tables(device))
    return Program(model, (hidden(device, dtype=torch.bfloat16), cos, sin), total)


def llama_pairs(device):
    """A block of Llama in bfloat16, neighbouring pairs turned in float32."""
    with torch.device(device):
        model = t.LlamaBlock(t.rotate_pairs).to(torch.bfloat16)
    inputs = hidden(device, dtype=torch.bfloat16), *t.rotary_tables(device)
    return Program(model, inputs, total)


def llama_complex(device):
    """A block of Llama in bfloat16, neighbouring pairs turned as complex numbers."""
    with torch.device(device):
        model = t.LlamaBlock(t.rotate_complex).to(torch.bfloat16)
    inputs = hidden(device, dtype=torch.bfloat16), *t.rotary_tables(device)
    return Program(model, inputs, total)


def checkpointed(device):
    """A feed-forward part in bfloat16, checkpointed with a policy."""
    with torch.device(device):
        model = t.CheckpointedMLP().to(torch.bfloat16)
    return Program(model, (hidden(device, dtype=torch.bfloat16),), total)


def unfused_attention(device):
    """Attention by products, mask, softmax and dropout, under autocast."""
    with torch.device(device):
        model = t.UnfusedAttention()
    return Program(model, (hidden(device),), total, autocast=True)


def cross_entropy(device):
    """A loss with padding, of logits in bfloat16."""
    shape = t.BATCH * t.LENGTH, t.VOCABULARY
    logits = torch.zeros(shape, device=device, dtype=torch.bfloat16, requires_grad=True)

    def loss(logits, targets):
        return F.cross_entropy(logits.float(), targets, ignore_index=-100)

    return Program(loss, (logits, tokens(device, shape[0])), total)


class Bottleneck(nn.Module):
    """A block of ResNet-50."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride > 1 or inputs != outputs:
            conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.shortcut(x))


def resnet(device, memory_format=torch.channels_last):
    """The stem of ResNet-50, two blocks and the head, under autocast."""
    with torch.device(device):
        stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()
        blocks = nn.MaxPool2d(3, 2, 1), Bottleneck(64, 64, 1), Bottleneck(256, 128, 2)
        head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)
        model = nn.Sequential(*stem, *blocks, *head)
        images = torch.ones(32, 3, 224, 224)
    model, images = (x.to(memory_format=memory_format) for x in (model, images))
    return Program(model, (images,), total, autocast=True)


def vit(device):
    """A vision transformer of one block, under autocast."""
    with torch.device(device):
        model, images = t.ViT(), torch.ones(128, 3, 64, 64)
    return Program(model, (images,), total, autocast=True)


def mlp(device):
    """Three layers with ReLU and dropout."""
    with torch.device(device):
        first = nn.Linear(1024, 2048), nn.ReLU(), nn.Dropout(0.2)
        second = nn.Linear(2048, 2048), nn.ReLU(), nn.Dropout(0.2)
        model, x = nn.Sequential(*first, *second, nn.Linear(2048, 16)), torch.ones(8192, 1024)
    return Program(model, (x,), total)


def dense_experts(device):
    """A mixture of experts, each of which sees every token."""
    with torch.device(device):
        model, x = t.MixtureOfExperts(), torch.ones(8192, t.WIDTH, requires_grad=True)
    return Program(model, (x,), total, autocast=True)


def scattered_experts(device):
    """A mixture of experts whose tokens are sorted, gathered and added back."""
    with torch.device(device):
        model, x = t.ScatteredExperts(), torch.ones(8192, t.WIDTH, requires_grad=True)
    return Program(model, (x,), total, autocast=True)


def padded_encoder(device):
    """A layer of BERT with a padding mask, under autocast."""
    with torch.device(device):
        model = t.PaddedEncoder()
    is_token = torch.ones(t.BATCH, t.LENGTH, dtype=torch.bool, device=device)
    return Program(model, (hidden(device), is_token), total, autocast=True)


def optimizer(device):
    """A step of Adam over lists, as `torch.optim` writes it with ``foreach=True``."""
    shapes = (1024, 1024), (4096, 1024), (1024,), (512, 512)

    def step(params, grads, means, squares):
        torch._foreach_lerp_(means, grads, 0.1)
        torch._foreach_mul_(squares, 0.95)
        torch._foreach_addcmul_(squares, grads, grads, 0.05)
        denominators = torch._foreach_sqrt(squares)
        torch._foreach_add_(denominators, 1e-8)
        torch._foreach_mul_(params, 0.99)
        torch._foreach_addcdiv_(params, means, denominators, -1e-3)

    lists = tuple([torch.ones(shape, device=device) for shape in shapes] for _ in range(4))
    return Program(step, lists, None)


PROGRAMS = {
    function.__name__: function
    for function in (
        gpt, llama, llama_pairs, llama_complex, checkpointed, unfused_attention, cross_entropy,
        resnet, vit, mlp,
        dense_experts, scattered_experts, padded_encoder, optimizer,
    )
}  # fmt: skip

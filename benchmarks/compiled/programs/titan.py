"""torchtitan's pretraining of Llama 3.1 8B with FSDP2, as of December 2024.

Each layer is checkpointed: the results of attention and of every second product are kept.
``--compile`` compiles the layers, and not the loss, as then.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from benchmarks.compiled.programs.llama import LLAMA3_8B, Complex, Llama
from benchmarks.compiled.programs.starting import is_compiled, one_of_many
from benchmarks.compiled.programs.timing import report

BATCH, SEQ = 2, 8192
ATTENTION = {
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
}


class Policy:
    """Keeps the results of attention and of every second product."""

    def __init__(self):
        self.products = {False: 0, True: 0}

    def __call__(self, context, operation, *args, **kwargs):
        """Say what becomes of the result of an operation."""
        kept = operation in ATTENTION
        if operation == torch.ops.aten.mm.default:
            self.products[context.is_recompute] += 1
            kept = self.products[context.is_recompute] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


def contexts():
    """Return the contexts of a checkpointed layer: one for its first run, one for the second."""
    return create_selective_checkpoint_contexts(Policy())


class Checkpointed(nn.Module):
    """A layer that is computed again where `Policy` does not keep results."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, table):
        """Return what the layer does."""
        return checkpoint(
            self.inner, x, table, use_reentrant=False, preserve_rng_state=False, context_fn=contexts
        )


def build(device, compiled):
    """Return the model, sharded; the last layer stays whole between the passes."""
    with device:
        model = Llama(LLAMA3_8B, SEQ, Complex)
    model.blocks = nn.ModuleList(map(Checkpointed, model.blocks))
    if compiled:
        for block in model.blocks:
            block.compile(fullgraph=True)
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for block in model.blocks:
        last = block is model.blocks[-1]
        fully_shard(block, mp_policy=policy, reshard_after_forward=not last)
    return fully_shard(model, mp_policy=policy)


def make_step(device, compiled):
    """Return a function that does a step of training."""
    model = build(device, compiled)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, foreach=True)
    tokens, targets = torch.randint(0, 128_256, (2, BATCH, SEQ), device=device).unbind(0)

    def step():
        optimizer.zero_grad()
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
        del logits
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()

    return step


def main():
    """Time a step."""
    with one_of_many() as device:
        report(make_step(device, is_compiled()))


if __name__ == "__main__":
    main()

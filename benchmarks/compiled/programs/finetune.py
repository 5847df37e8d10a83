"""torchtune's full fine-tuning of Llama 3.2 3B on one GPU, as of November 2024.

Weights, gradients and what AdamW keeps have 16 bits. torchtune packs documents into a sequence and
attends within each by FlexAttention. How long they are is not published; here a sequence is one
document, and attention is the fused kernel. ``--compile`` compiles each layer and the loss.
"""

import torch
import torch.nn.functional as F

from benchmarks.compiled.programs.llama import LLAMA3_3B, Llama, Pairs
from benchmarks.compiled.programs.starting import is_compiled
from benchmarks.compiled.programs.timing import report

BATCH, SEQ = 2, 4096


def main():
    """Time a step."""
    compiled = is_compiled()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Llama(LLAMA3_3B, SEQ, Pairs)
    loss_of = F.cross_entropy
    if compiled:
        for block in model.blocks:
            block.compile()
        loss_of = torch.compile(loss_of)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    tokens, targets = torch.randint(0, 128_256, (2, BATCH, SEQ), device="cuda").unbind(0)

    def step():
        logits = model(tokens).float()
        loss = loss_of(logits.flatten(0, 1), targets.flatten())
        del logits
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    report(step)


if __name__ == "__main__":
    main()

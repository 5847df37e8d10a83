"""The figures of the last edition of the page beside those of this one, and why some got worse.

`LAST` was printed in the edition of 22 November 2026 (commit 336879b), which predicted vTrain's
steps by a formula. Families that it did not have are left out.
"""

from benchmarks.published.page import summary
from benchmarks.published.score import score
from benchmarks.published.tables import FAMILIES

# Median errors; vTrain's tables by where they ran.
LAST = {
    ("collectives", ""): 0.034,
    ("vtrain", "several nodes"): 0.074,
    ("vtrain", "one node"): 0.074,
    ("llmfoundry", ""): 0.155,
    ("torchtitan", ""): 0.278,
    ("megatron 2021", ""): 0.115,
    ("megatron 2024", ""): 0.118,
    ("korthikanti times", ""): 0.141,
    ("nanotron", ""): 0.128,
    ("gpt2", ""): 0.164,
    ("resnet50", ""): 0.354,
    ("torchgpipe", ""): 0.145,
    ("large models", ""): 0.118,
}
# Why figures are higher by more than rounding.
WHY = {
    ("vtrain", "one node"): "its steps run as programs now, whose kernels are counted; the formula "
    "that they replace was a little closer",
    ("megatron 2024", ""): "interleaved pipelines take less time since a message that comes late "
    "shares the wires, and attention takes cuDNN's kernel, as PyTorch chooses on H100s, which is "
    "faster than the one assumed before; predictions were too short already",
    ("nanotron", ""): "messages of tensor parallelism take longer than before; of the rows that "
    "have them, some came closer and some went further off",
    ("torchtitan", ""): "three rows with context parallelism, refused before, are predicted too "
    "fast",
    ("large models", ""): "the same as for Megatron Core; the two rows on A100s have not changed",
}
SAME = 0.001  # a change that rounding may make


def lines(tables):
    """Return (table, last edition, this edition, why it got worse) for each known table."""
    now = {}
    for table in summary.measured(tables):
        where = summary.place(table) if table.family == "vtrain" else ""
        now[table.family, where] = score(summary.not_fitted(table))["median_error"]
    found = []
    for key, last in LAST.items():
        if key not in now:
            continue
        this = now[key]
        worse = this > last + SAME
        name = FAMILIES[key[0]].TITLE + (f", {key[1]}" if key[1] else "")
        found.append((name, f"{last:.1%}", f"{this:.1%}", WHY.get(key, "unknown") if worse else ""))
    return found

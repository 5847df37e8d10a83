"""The figures of the last edition of the page beside those of this one, and why some got worse.

`LAST` was printed in the edition of 28 November 2026 (commit 1e19bee), in which a plan's optimiser
and 8-bit products were kernels of the planner's own, and so was compiled code. Families that it did
not have are left out.
"""

from benchmarks.published.page import summary
from benchmarks.published.score import score
from benchmarks.published.tables import FAMILIES

# Median errors; vTrain's tables by where they ran.
LAST = {
    ("collectives", ""): 0.029,
    ("more messages", ""): 0.093,
    ("vtrain", "several nodes"): 0.053,
    ("vtrain", "one node"): 0.079,
    ("llmfoundry", ""): 0.150,
    ("torchtitan", ""): 0.277,
    ("megatron 2021", ""): 0.091,
    ("megatron 2024", ""): 0.196,
    ("megascale", ""): 0.269,
    ("korthikanti times", ""): 0.090,
    ("nanotron", ""): 0.130,
    ("gpt2", ""): 0.1634,
    ("resnet50", ""): 0.201,
    ("torchgpipe", ""): 0.121,
    ("large models", ""): 0.177,
    ("internevo", ""): 0.236,
    ("moe folding", ""): 0.1025,
    ("automodel", ""): 0.072,
    ("bridge", ""): 0.152,
    ("moe modelzoo", ""): 0.509,
}
# Why figures are higher by more than rounding.
_FUSED = "bias, dropout and the sum behind them are one kernel, as they were; "
_SHORT = "most predictions were too short already"
WHY = {
    ("vtrain", "several nodes"): _FUSED + _SHORT,
    ("megatron 2021", ""): _FUSED + _SHORT,
    ("korthikanti times", ""): _FUSED + _SHORT,
    ("automodel", ""): "whole layers are compiled; the prediction was too short already",
    ("moe folding", ""): "with ZeRO-1, shards are gathered and scattered in place, as trainers do, "
    f"and not copied first; {_SHORT}",
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

"""The page's first answers: how long real steps took, by GPU, as multiples of the prediction."""

import statistics

from benchmarks.published import orders, own_script
from benchmarks.published.page import summary
from benchmarks.published.page.blocks import table

EXPERTS = ("moe folding", "moe modelzoo", "automodel")  # families


def has_experts(family, prediction):
    """Return whether a published step is one of a mixture of experts."""
    return family in EXPERTS or "Qwen3" in prediction.what


def steps_table(tables):
    """Return the table of steps to which nothing was fitted, by GPU and number of nodes."""
    head = ("steps on", "published", "times the prediction: median", "nine of ten", "all")
    lines = [
        (words, len(taken), f"{statistics.median(taken):.2f}",
         span(*orders.nine_of_ten(taken)) if len(taken) >= 10 else "too few",
         span(min(taken), max(taken)))
        for words, taken in _groups(tables).items()
    ]  # fmt: skip
    return table(head, lines)


def _groups(tables):
    """Return ``{words: multiples of the predicted time that the real steps took}``."""
    groups = {}
    for one in summary.programs(tables):
        for p in one.predictions:
            if p.measured is not None and p.context == 1 and not p.fitted:
                groups.setdefault(_group(one.family, p), []).append(1 / p.ratio)
    found = {words: groups[words] for words in sorted(groups)}
    rates = zip(own_script.ROWS, own_script.read(), strict=True)
    found["A100s and H100s, one node, a user's script"] = [
        rate / row.rate for row, (rate, *_) in rates
    ]
    return found


def _group(family, p):
    gpu, *wires = p.preset.split("/")
    if has_experts(family, p):
        return f"{_name(gpu)}, mixtures of experts"
    return f"{_name(gpu)}, {'several nodes' if len(wires) > 1 else 'one node'}"


def _name(gpu):
    return f"{gpu.partition('-')[0].upper()}s"


def span(low, high) -> str:
    """Write a range of multiples."""
    return f"{low:.2f} to {high:.2f}"

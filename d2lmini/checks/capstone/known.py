"""Plans that pass: for each model one that fits, a fast one, and the cheapest that is known.

Whoever reads on sees solutions.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """Plans that pass the three levels.

    Attributes
    ----------
    fits, fast, cheapest : dict
    """

    fits: dict
    fast: dict
    cheapest: dict


def _plan(tp, shard, micro_batch, recompute, offer=None, gpus=None):
    plan = {"tp": tp, "shard": shard, "micro_batch": micro_batch, "recompute": recompute}
    return plan if offer is None else plan | {"offer": offer, "gpus": gpus}


KNOWN = {
    "llama2-7b": Known(
        _plan(8, 1, 1, "none"), _plan(1, 3, 8, "full"), _plan(1, 3, 2, "none", "B", 16),
    ),
    "gpt3-13b": Known(
        _plan(8, 1, 1, "none"), _plan(8, 1, 4, "none"), _plan(8, 1, 4, "none", "A", 64),
    ),
    "llama2-13b": Known(
        _plan(8, 1, 1, "none"), _plan(8, 1, 8, "none"), _plan(4, 1, 4, "none", "B", 32),
    ),
    "llama3-8b": Known(
        _plan(8, 1, 1, "none"), _plan(4, 1, 1, "none"), _plan(1, 3, 1, "full", "C", 64),
    ),
    "gpt3-6.7b": Known(
        _plan(8, 1, 1, "none"), _plan(1, 3, 8, "full"), _plan(1, 1, 1, "none", "C", 32),
    ),
    "mpt-30b": Known(
        _plan(8, 1, 1, "none"), _plan(4, 1, 2, "none"), _plan(4, 1, 2, "none", "A", 32),
    ),
}  # fmt: skip

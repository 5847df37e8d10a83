"""Checker of stages: where to cut the layers."""

import itertools

from d2lmini.checks.shared.results import whole_number
from d2lmini.checks.shared.solution import checker

LAYERS = (
    ([1.0, 1.0, 1.0, 1.0], 2),
    ([2.0, 3.0, 4.0, 5.0, 6.0, 1.0, 1.0], 3),
    ([0.2] + [1.0] * 16 + [3.0], 4),
    ([5.0, 1.0, 1.0, 1.0, 1.0], 3),
    ([1.0, 9.0, 1.0], 3),
    ([1.0, 2.0, 9.0, 2.0, 2.0], 4),
    ([0.5] + [1.0, 2.0, 1.5] * 32 + [1.0, 1.0, 6.0], 16),  # too long to try all cuts
)


@checker("cut(costs, p)")
def check_cut(cut):
    """Check a function that cuts layers into stages.

    Parameters
    ----------
    cut : callable
        ``cut(costs, p)``, returning the ``p - 1`` indices at which stages 1, 2, ... begin.

    Raises
    ------
    AssertionError
        If it is not a cut into `p` stages, or the slowest stage could be faster.
    """
    for costs, p in LAYERS:
        layers = costs if len(costs) < 20 else f"({len(costs)} of them)"
        where = f"layers {layers} on {p} stages"
        given = cut.at(where)
        cuts = given.items(given(list(costs), p), p - 1)
        cuts = [whole_number(c, f"{where}: an index that cut returns") for c in cuts]
        bounds = [0, *cuts, len(costs)]
        assert all(a < b for a, b in itertools.pairwise(bounds)), (
            f"{where}: {cuts} leaves a stage empty or is not in order"
        )
        best = fastest(costs, p)
        got = _slowest(costs, cuts)
        sizes = [b - a for a, b in itertools.pairwise(bounds)]
        hint = (
            "equal numbers of layers are not equal costs"
            if max(sizes) - min(sizes) <= 1
            else "filling one stage after the other to the mean can leave too much for the last"
        )
        assert got <= best + 1e-9, (
            f"{where}: with cuts {cuts} the slowest stage takes {got:g}, {best:g} is possible; "
            f"{hint}"
        )
    print("cut: passed")


def fastest(costs, p):
    """Return the smallest possible cost of the slowest of `p` stages."""
    sums = [0.0, *itertools.accumulate(costs)]
    best = {0: 0.0}  # number of layers used: cost of the slowest stage
    for stage in range(1, p + 1):
        best = {
            end: min(max(slow, sums[end] - sums[at]) for at, slow in best.items() if at < end)
            for end in range(stage, len(costs) + 1)
        }
    return best[len(costs)]


def _slowest(costs, cuts):
    bounds = [0, *cuts, len(costs)]
    return max(sum(costs[a:b]) for a, b in itertools.pairwise(bounds))

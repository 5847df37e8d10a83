"""How often predictions order two splits rightly, and what choosing by them costs."""

import itertools
import statistics
from dataclasses import replace

NEAR = 0.05  # a choice is near the best if it costs so much more at most
SAME_JOB = ("# GPUs", "global batch", "hidden size", "# layers", "sequence length")
CLASSES = ((0, 0.05), (0.05, 0.1), (0.1, 0.2), (0.2, 0.5), (0.5, float("inf")))


def jobs(found):
    """Return lists of predictions: the splits of each job (same model, GPUs and batch)."""
    groups = {}
    for row, p in found:
        groups.setdefault(tuple(row[column] for column in SAME_JOB), []).append(p)
    return list(groups.values())


def orders(found):
    """Say how often the order is right, by how different the predictions are.

    Returns
    -------
    list of tuple
        For each of `CLASSES` of the predicted difference: the number of pairs of splits, and the
        share of them in which the split with the shorter predicted time was the faster one.
    """
    pairs = [pair for job in jobs(found) for pair in itertools.combinations(job, 2)]
    results = []
    for low, high in CLASSES:
        right = [
            _is_right(a, b) for a, b in pairs if low <= _difference(a.predicted, b.predicted) < high
        ]
        results.append((len(right), sum(right) / len(right) if right else float("nan")))
    return results


def _difference(a, b):
    """Return by what share the longer of two times is longer."""
    return max(a, b) / min(a, b) - 1


def _is_right(a, b):
    first, second = sorted((a, b), key=lambda p: p.predicted)
    return first.measured < second.measured


def choices(found, name):
    """Say how good the split would be that is chosen by the predictions, or at random.

    Jobs with three measured splits or more count. Costs are shares of the best split's time.
    """
    chosen_from = [job for job in jobs(found) if len(job) > 2]
    costs = [_costs(job) for job in chosen_from]
    taken = [mine for mine, _ in costs] or [float("nan")]
    numbers = {
        "jobs": len(chosen_from),
        "best": sum(cost == 0 for cost in taken),
        "near": sum(cost <= NEAR for cost in taken),
        "far": sum(cost > NEAR for cost in taken),
        "choice": max(taken),
        "mean": statistics.mean(taken),
        "random_best": sum(statistics.mean(cost == 0 for cost in all_) for _, all_ in costs),
        "random_near": sum(statistics.mean(cost <= NEAR for cost in all_) for _, all_ in costs),
        "random_mean": statistics.mean([statistics.mean(all_) for _, all_ in costs] or taken),
        "random_worst": 1 + max([max(all_) for _, all_ in costs] or taken),
    }
    return {f"{name}_{key}": value for key, value in numbers.items()}


def _costs(job):
    """Return how much longer than the best the predicted split took, and each of the splits."""
    best = min(p.measured for p in job)
    chosen = min(job, key=lambda p: p.predicted)
    return chosen.measured / best - 1, [p.measured / best - 1 for p in job]


def without_fit(found):
    """Return the pairs once more, predicted with the presets' launch overhead."""
    return [(row, replace(p, predicted=p.unfitted)) for row, p in found]


def not_fitted(found):
    """Return the pairs to which no constant was fitted."""
    return [(row, p) for row, p in found if not p.fitted]

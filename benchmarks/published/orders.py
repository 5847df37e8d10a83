"""How often predictions order two ways to do a job rightly, and what choosing by them costs.

The page says it of published steps, and `simgpu.plan.errors` has its numbers from here.
"""

import itertools
import re
import statistics
from dataclasses import replace

NODE = 8  # GPUs of a node
NEAR = 0.05  # a choice is near the best if it costs so much more at most
CLASSES = ((0, 0.05), (0.05, 0.1), (0.1, 0.2), (0.2, 0.5), (0.5, float("inf")))


def jobs(predictions):
    """Return lists of predictions: the ways to do each job (same model, GPUs and batch)."""
    groups = {}
    for p in predictions:
        if p.job:
            groups.setdefault((p.system, p.job), []).append(p)
    return list(groups.values())


def pairs(predictions):
    """Return (predicted difference, whether the order is right) of every two ways to do a job.

    The difference is by what share the slower one is predicted to take longer.
    """
    return [
        (max(a.predicted, b.predicted) / min(a.predicted, b.predicted) - 1, _is_right(a, b))
        for job in jobs(predictions) for a, b in itertools.combinations(job, 2)
    ]  # fmt: skip


def orders(found):
    """Say how often the order is right, by how different the predictions are.

    Returns
    -------
    list of tuple
        For each of `CLASSES` of the predicted difference: the number of pairs of splits, and the
        share of them in which the split with the shorter predicted time was the faster one.
    """
    results = []
    for low, high in CLASSES:
        right = [is_right for difference, is_right in pairs(found) if low <= difference < high]
        results.append((len(right), sum(right) / len(right) if right else float("nan")))
    return results


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
        "median": statistics.median(taken),
        "random_best": sum(statistics.mean(cost == 0 for cost in all_) for _, all_ in costs),
        "random_near": sum(statistics.mean(cost <= NEAR for cost in all_) for _, all_ in costs),
        "random_mean": statistics.mean([statistics.mean(all_) for _, all_ in costs] or taken),
        "random_worst": 1 + max([max(all_) for _, all_ in costs] or taken),
    }
    return {f"{name}_{key}": value for key, value in numbers.items()}


def rule_of_thumb(found, name):
    """Say how good the rule "tensor parallel in the node, small pipeline, rest data" would be.

    Jobs with three measured ways or more count in which the rule can choose: they differ in tensor
    or pipeline parallelism. Where several ways are what the rule wants, their mean counts. What the
    predictions choose in the same jobs stands beside it.
    """
    chosen_from = [job for job in jobs(found) if len(job) > 2 and len({*map(_split, job)}) > 1]
    rule, mine = [], []
    for job in chosen_from:
        best, wanted = min(p.measured for p in job), min(map(_split, job))
        rule.append(statistics.mean(p.measured / best for p in job if _split(p) == wanted) - 1)
        mine.append(_costs(job)[0])
    numbers = {"jobs": len(chosen_from)}
    for way, costs in (("rule", rule or [float("nan")]), ("mine", mine or [float("nan")])):
        numbers |= {
            f"{way}_mean": statistics.mean(costs),
            f"{way}_median": statistics.median(costs),
        }
        numbers[f"{way}_best"] = sum(cost == 0 for cost in costs)
    return {f"{name}_{key}": value for key, value in numbers.items()}


def _split(p):
    """Return what the rule prefers the lowest of: out of the node, then less TP, then more PP."""
    tensor, pipeline = (
        int(found[1]) if (found := re.search(rf"\b{kind} ?(\d+)", p.what)) else 1
        for kind in ("TP", "PP")
    )
    return tensor > NODE, -tensor, pipeline


def _costs(job):
    """Return how much longer than the best the predicted split took, and each of the splits."""
    best = min(p.measured for p in job)
    chosen = min(job, key=lambda p: p.predicted)
    return chosen.measured / best - 1, [p.measured / best - 1 for p in job]


def without_fit(found):
    """Return the predictions once more, with nothing fitted."""
    return [replace(p, predicted=p.unfitted) for p in found]


def not_fitted(found):
    """Return the predictions to which no constant was fitted."""
    return [p for p in found if not p.fitted]


def nine_of_ten(values):
    """Return between which two values nine of ten lie, as many below as above."""
    low, *_, high = statistics.quantiles(values, n=20)  # 5 and 95 %
    return low, high

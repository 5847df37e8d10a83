"""How far predictions are off: errors, rank correlation, and both after one calibration point."""

import statistics

from benchmarks.published import orders


def ranks(values):
    """Return the rank of each value, counted from 1; equal values share the mean of their ranks."""
    order = sorted(values)
    first = {}
    for place, value in enumerate(order, 1):
        first.setdefault(value, place)
    return [first[value] + (order.count(value) - 1) / 2 for value in values]


def rank_correlation(a, b):
    """Return Spearman's rank correlation; None if it is not defined (one value, or all equal)."""
    if len(set(a)) < 2 or len(set(b)) < 2:
        return None
    return statistics.correlation(ranks(a), ranks(b))


def _errors(pairs):
    errors = [abs(predicted / measured - 1) for predicted, measured in pairs]
    if not errors:
        return {"rows": 0, "median_error": None, "worst_error": None, "rank_correlation": None}
    return {
        "rows": len(errors),
        "median_error": round(statistics.median(errors), 4),
        "worst_error": round(max(errors), 4),
        "rank_correlation": _rounded(rank_correlation(*zip(*pairs, strict=True))),
    }


def _rounded(value):
    return None if value is None else round(value, 4)


def calibrated(predictions):
    """Scale each system's predictions so that one measurement is met exactly; leave that row out.

    Which row is not chosen by hand: each row of the system is tried as the calibration point, and
    the one that is kept is in the middle by the median error that it leaves.
    """
    pairs = []
    for system in dict.fromkeys(p.system for p in predictions):
        rows = [p for p in predictions if p.system == system]
        if len(rows) > 1:
            tries = sorted(
                (_without(rows, point) for point in range(len(rows))),
                key=lambda found: statistics.median(abs(a / b - 1) for a, b in found),
            )
            pairs += tries[len(tries) // 2]
    return pairs


def _without(rows, point):
    """Return (predicted, measured) of the other rows, scaled so that row `point` is met."""
    scale = rows[point].ratio
    return [(p.predicted / scale, p.measured) for i, p in enumerate(rows) if i != point]


def memory_errors(predictions):
    """Return rows and errors of the predicted peaks of memory; None if there are none."""
    pairs = [p.memory[::-1] for p in predictions if p.memory]
    found = _errors(pairs)
    return {key: found[key] for key in ("rows", "median_error", "worst_error")} if pairs else None


def within_jobs(predictions):
    """Return the rank correlation over the ways to do one job: jobs, and their mean.

    Jobs count that were measured in three ways or more.
    """
    found = [
        rank_correlation([p.predicted for p in ps], [p.measured for p in ps])
        for ps in orders.jobs(predictions)
        if len(ps) > 2
    ]
    found = [value for value in found if value is not None]
    return {"jobs": len(found), "mean": round(statistics.mean(found), 4)} if found else None


def score(predictions):
    """Return rows, errors and rank correlation, plain and calibrated, as a dict for JSON.

    ``not_fitted`` is about the rows that no parameter was fitted to, where some were; ``memory``
    about peaks of memory, ``within_jobs`` about the ways to do the same job, where there are some.
    """
    timed = [p for p in predictions if p.measured is not None]
    result = _errors([(p.predicted, p.measured) for p in timed])
    result["one_point_per_system"] = _errors(calibrated(timed))
    others = [p for p in timed if not p.fitted]
    if len(others) < len(timed):
        result["not_fitted"] = _errors([(p.predicted, p.measured) for p in others])
    more = {"memory": memory_errors(predictions), "within_jobs": within_jobs(timed)}
    return result | {name: found for name, found in more.items() if found}

"""How far predictions are off: errors, rank correlation, and both after one calibration point."""

import statistics


def ranks(values):
    """Return the rank of each value, from 1 on; equal values share the mean of their ranks."""
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


def score(predictions):
    """Return rows, errors and rank correlation, plain and calibrated, as a dict for JSON.

    ``not_fitted`` is about the rows that no parameter was fitted to, where some were.
    """
    result = _errors([(p.predicted, p.measured) for p in predictions])
    result["one_point_per_system"] = _errors(calibrated(predictions))
    others = [p for p in predictions if not p.fitted]
    if len(others) < len(predictions):
        result["not_fitted"] = _errors([(p.predicted, p.measured) for p in others])
    return result

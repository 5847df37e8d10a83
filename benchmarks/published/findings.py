"""What tables of published measurements say about the clock, as numbers by name."""

import statistics
from functools import partial

from benchmarks.published import vtrain
from benchmarks.published.collectives import num_bytes
from benchmarks.published.score import score
from d2lmini.sim.hardware import assumptions

SMALL, LARGE = 2**20, 2**29  # bytes: small messages up to the first, large ones from the second on
NEAR = 0.05  # a choice is near the best if it costs so much more at most
SAME_JOB = ("# GPUs", "global batch", "hidden size", "# layers", "sequence length")


def pairs(tables, family):
    """Return (row, prediction) of all tables of a family; raise ValueError if there are none."""
    found = [
        pair
        for table in tables
        if table.family == family
        for pair in zip(table.rows, table.predictions, strict=True)
    ]
    if not found:
        raise ValueError(f"no row of the family {family!r} was predicted; name a table of it")
    return found


def by_system(found):
    """Return ``{system: pairs}``, in the tables' order."""
    systems = dict.fromkeys(p.system for _, p in found)
    return {name: [pair for pair in found if pair[1].system == name] for name in systems}


def sweep(found):
    """Return the pairs of the one-node system with the most sizes of all-reduce, by size."""
    alone = [pair for pair in found if pair[0]["nodes"] == "1"]
    groups = by_system([pair for pair in alone if pair[0]["collective"] == "all_reduce"])
    if not groups:
        raise ValueError("the tables have no all_reduce on one node")
    most = max(groups.values(), key=lambda group: len({num_bytes(row) for row, _ in group}))
    return sorted(most, key=lambda pair: num_bytes(pair[0]))


def several_nodes(found):
    """Return the pairs of collectives over more than one node."""
    return [pair for pair in found if pair[0]["nodes"] != "1"]


def of_collectives(found):
    """Return the numbers about collectives."""
    swept = sweep(found)
    (first, least), systems = swept[0], {p.system for _, p in swept}
    sizes = {
        "small": [p for row, p in swept if num_bytes(row) <= SMALL],
        "medium": [p for row, p in swept if SMALL < num_bytes(row) < LARGE],
        "large": [p for row, p in swept if num_bytes(row) >= LARGE],
        "others": [p for row, p in found if row["nodes"] == "1" and p.system not in systems],
        "several": [p for _, p in several_nodes(found)],
    }
    numbers = {"gap": least.measured - least.predicted, "least": num_bytes(first)}
    for name, group in sizes.items():
        ratios = [p.ratio for p in group] or [float("nan")]
        numbers |= {f"{name}_low": min(ratios), f"{name}_high": max(ratios)}
    return numbers | _scores("collectives", [p for _, p in found])


def of_steps(found, name):
    """Return the numbers about vTrain's steps, with `name` before each."""
    predictions = [p for _, p in found]
    numbers = _scores(name, predictions)
    fitted = [p for p in predictions if p.fitted]
    if fitted:
        others = score(predictions)["not_fitted"]
        numbers |= {
            f"{name}_fitted": len(fitted),
            f"{name}_others": others["rows"],
            f"{name}_others_median": others["median_error"],
            f"{name}_others_worst": others["worst_error"],
        }
    return numbers | choices(found, name) | _plain(found, name)


def _plain(found, name):
    """Return the scores with nothing fitted: the presets' launch overhead."""
    plain = [vtrain.predict(row, launch=None) for row, _ in found]
    jobs = choices([(row, p) for (row, _), p in zip(found, plain, strict=True)], f"{name}_plain")
    return _scores(f"{name}_plain", plain) | jobs


def choices(found, name):
    """Say how good the split would be that is chosen by the predictions.

    Jobs are the same if model, GPUs and batch are; those with three measured splits or more count.
    """
    jobs = {}
    for row, p in found:
        jobs.setdefault(tuple(row[column] for column in SAME_JOB), []).append(p)
    jobs = [job for job in jobs.values() if len(job) > 2]
    costs = [_cost(job) for job in jobs] or [float("nan")]
    spreads = [max(p.measured for p in job) / min(p.measured for p in job) for job in jobs]
    return {
        f"{name}_jobs": len(jobs),
        f"{name}_best": sum(cost == 0 for cost in costs),
        f"{name}_near": sum(cost <= NEAR for cost in costs),
        f"{name}_choice": max(costs),
        f"{name}_spread": statistics.median(spreads or [float("nan")]),
    }


def _cost(job):
    """Return how much longer the split with the least predicted time took than the best one."""
    chosen = min(job, key=lambda p: p.predicted)
    return chosen.measured / min(p.measured for p in job) - 1


def _scores(name, predictions):
    found = score(predictions)
    point = found["one_point_per_system"]
    values = {
        "rows": found["rows"],
        "median": found["median_error"],
        "worst": found["worst_error"],
        "rank": found["rank_correlation"],
        "point_median": point["median_error"],
        "point_worst": point["worst_error"],
    }
    return {f"{name}_{key}": float("nan") if v is None else v for key, v in values.items()}


def all_numbers(tables):
    """Return ``{name: number}`` for the page's text."""
    steps = pairs(tables, "vtrain")
    numbers = of_collectives(pairs(tables, "collectives"))
    for name, chosen in (("one", one_node(steps)), ("more", more_nodes(steps))):
        numbers |= of_steps(chosen, name)
    numbers["launch"] = vtrain.LAUNCH * 1e6
    numbers["preset_launch"] = assumptions.LAUNCH_OVERHEAD * 1e6
    numbers["left_out"] = sum(len(table.refused) for table in tables)
    return numbers


def _of_nodes(found, several):
    nodes = vtrain.GPUS_PER_NODE
    return [pair for pair in found if (int(pair[0]["# GPUs"]) > nodes) == several]


one_node, more_nodes = partial(_of_nodes, several=False), partial(_of_nodes, several=True)

"""Which plan is faster: predictions of published ways to do the same job.

``python -m benchmarks.published.plans TABLE ...`` scores tables (CSV files, or a record of
predictions, JSON) by job, and writes ``records/published/plans.json``, from which
`simgpu.search.errors` has its numbers. Nothing is fitted to the order of plans.
"""

import itertools
import json
import math
import statistics
import sys
from pathlib import Path

from benchmarks.published.score import rank_correlation
from benchmarks.published.tables import read as read_table
from simgpu.search import errors

PATH = Path(__file__).parents[2] / "records" / "published" / "plans.json"
FORMAT = "simgpu plans 1"
FIELDS = ("table", "job", "plan", "measured", "predicted", "fitted")
# Steps of language models; what else has jobs is no plan of a training step.
TABLES = ("vtrain", "nanotron", "torchtitan", "korthikanti times", "internevo", "moe folding",
          "megatron 2021", "megatron 2024", "llmfoundry", "large models")  # fmt: skip
LEVELS = [n / 20 for n in range(1, 11)]  # differences of two plans: 5 to 50 %
RIGHT = 0.95  # share of pairs whose order is right
EXPERTS = "moe folding"  # the table of mixtures of experts
TIE = 0.02  # measured times that differ by less


def rows_of(path):
    """Return the rows, dicts of `FIELDS`, of a table or of a record of predictions."""
    if Path(path).suffix == ".json":
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        tables = [
            (one["family"], [dict(zip(found["fields"], row[len(one["columns"]):], strict=False))
                             for row in one["rows"]])
            for one in found["tables"]
        ]  # fmt: skip
    else:
        table = read_table(path)
        tables = [(table.family, [vars(p) for p in table.predictions])]
    return [
        {"table": family, "job": f"{row['system']}: {row['job']}" if row["job"] else "",
         "plan": row["what"], "measured": row["measured"],
         "predicted": row["predicted"], "fitted": row["fitted"]}
        for family, rows in tables if family in TABLES
        for row in rows if row["measured"] is not None
    ]  # fmt: skip


def jobs_of(rows):
    """Return the rows of each job that was measured in two ways or more."""
    found = {}
    for row in rows:
        if row["job"]:
            found.setdefault((row["table"], row["job"]), []).append(row)
    return {job: group for job, group in found.items() if len(group) > 1}


def pairs(jobs):
    """Return (predicted difference, order is right) of every two plans for a job.

    The difference is what the slower one takes longer; plans whose measured times differ by less
    than `TIE` are left out, since none is faster.
    """
    found = []
    for group in jobs.values():
        for a, b in itertools.combinations(group, 2):
            told, real = a["predicted"] / b["predicted"], a["measured"] / b["measured"]
            if max(real, 1 / real) >= 1 + TIE:
                found.append((max(told, 1 / told) - 1, (told > 1) == (real > 1)))
    return found


def compared(found):
    """Return the smallest of `LEVELS` from which on `RIGHT` of the orders are right."""
    for level in LEVELS:
        orders = [right for difference, right in found if difference >= level]
        if orders and statistics.fmean(orders) >= RIGHT:
            return level
    return None


def order_near(found, level):
    """Return the share of right orders of pairs that differ by `level` to twice as much."""
    return statistics.fmean(right for told, right in found if level <= told < 2 * level)


def time_range(rows):
    """Return what nine of ten rows took, in units of the predicted time; fitted ones left out."""
    ratios = sorted(row["measured"] / row["predicted"] for row in rows if not row["fitted"])
    low, *_, high = statistics.quantiles(ratios, n=20)  # 5 and 95 %
    return low, high


def all_times(rows):
    """Return what all rows took at least and at most, in units of the predicted time."""
    ratios = [row["measured"] / row["predicted"] for row in rows]
    return min(ratios), max(ratios)


def score(jobs):
    """Return what became of the choice of a plan, over jobs.

    ``wins``: the chosen plan, the one with the lowest predicted time, was the fastest or within
    `TIE` of it; ``regret``: what it took longer than the fastest, in the mean and at most.
    """
    regrets, orders = [], []
    for group in jobs.values():
        chosen = min(group, key=lambda row: row["predicted"])
        regrets.append(chosen["measured"] / min(row["measured"] for row in group) - 1)
        if len(group) > 2:
            orders.append(rank_correlation(*zip(
                *((row["predicted"], row["measured"]) for row in group), strict=True)))  # fmt: skip
    orders = [one for one in orders if one is not None]
    return {
        "jobs": len(jobs), "plans": sum(map(len, jobs.values())),
        "wins": sum(regret < TIE for regret in regrets),
        "mean_regret": round(statistics.fmean(regrets), 3), "worst_regret": round(max(regrets), 3),
        "rank_correlation": round(statistics.fmean(orders), 3) if orders else None,
    }  # fmt: skip


def read(path=PATH):
    """Return the rows of the record."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return [dict(zip(found["fields"], row, strict=True)) for row in found["rows"]]


def write(rows, path=PATH):
    """Write the rows, one a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps([row[name] for name in FIELDS]) for row in rows)
    head = f'"format": "{FORMAT}", "fields": {json.dumps(FIELDS)}'
    path.write_text(f'{{{head}, "rows": [\n{lines}\n]}}\n', encoding="utf-8")


def main(arguments=None):
    """Score tables, and write the record."""
    paths = sys.argv[1:] if arguments is None else arguments
    rows = [row for path in paths for row in rows_of(path)] if paths else read()
    if paths:
        write(rows)
    jobs = jobs_of(rows)
    for name in dict.fromkeys(table for table, _ in jobs):
        group = {job: found for job, found in jobs.items() if job[0] == name}
        print(name, json.dumps(score(group)))
    found = pairs(jobs)
    for low, high in itertools.pairwise([0, *LEVELS[:2], 0.2, 0.5, math.inf]):
        orders = [right for difference, right in found if low <= difference < high]
        if orders:
            share = statistics.fmean(orders)
            print(f"{low:.0%} to {high:.0%}: {share:.1%} of {len(orders)} pairs")
    print("compared:", compared(found), "against", errors.COMPARED)
    print("order:", order_near(found, errors.COMPARED), "against", errors.ORDER)
    experts = [row for row in rows if row["table"] == EXPERTS]
    others = [row for row in rows if row["table"] != EXPERTS]
    print("time:", time_range(others), "against", errors.TIME)
    if experts:
        print("time, experts:", all_times(experts), "against", errors.TIME_EXPERTS)
    return 0


if __name__ == "__main__":
    sys.exit(main())

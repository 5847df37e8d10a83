"""What the page says about all tables at once: a line for each, and every row of the programs."""

import math
import re
import statistics

from benchmarks.published.score import score
from benchmarks.published.shared.markdown import plain
from benchmarks.published.tables import FAMILIES
from simgpu.units import quantity

# Goals: median error before and after one calibration point, order, memory.
BEFORE, AFTER, ORDER, MEMORY = 0.25, 0.1, 0.9, 0.1
FORMULAS = ("collectives", "more messages", "vtrain")  # tables with sections of their own
PAPER = "korthikanti memory"  # percentages that a paper's formula gives: nothing was measured


def measured(tables):
    """Return the tables that were measured: all but the paper's formula."""
    return [table for table in tables if table.family != PAPER]


def sorted_by_family(tables):
    """Return the measured tables in the order of the page."""
    return sorted(measured(tables), key=lambda table: list(FAMILIES).index(table.family))


def programs(tables):
    """Return the measured tables whose rows ran as programs, in the order of the page."""
    return [table for table in sorted_by_family(tables) if table.family not in FORMULAS]


def lines(tables):
    """Return the cells of the summary, a line for each measured table; bold: a goal is missed."""
    found = []
    for table in sorted_by_family(tables):
        s = score(not_fitted(table))
        point, splits, memory = s["one_point_per_system"], s.get("within_jobs"), s.get("memory")
        where = plain(place(table)) if table.family == "vtrain" else ""
        found.append((
            table.title + (where and f", {where}"), len(not_fitted(table)),
            len(table.refused) or "",
            _share(s["median_error"], BEFORE), _share(point["median_error"], AFTER, point["rows"]),
            _order(s["rank_correlation"]), _order(splits and splits["mean"]),
            _share(memory and memory["median_error"], MEMORY, memory and memory["rows"]),
        ))  # fmt: skip
    return found


def place(table):
    """Return where the rows of a table ran if they say it and agree, else an empty text."""
    systems = {p.system.rpartition(", ")[2] for p in table.predictions}
    return systems.pop() if len(systems) == 1 else ""


def not_fitted(table):
    """Return the predictions to which no constant was fitted."""
    return [p for p in table.predictions if not p.fitted]


def _share(value, goal, count=None):
    if value is None:
        return ""
    text = f"{100 * value:.1f}%"
    text = f"**{text}**" if value > goal else text
    return text if count is None else f"{text} ({count})"


def _order(value):
    if value is None:
        return ""
    if value >= ORDER:
        return f"{value:.2f}"
    return f"**{value:.3f}**" if f"{value:.2f}" == f"{ORDER:.2f}" else f"**{value:.2f}**"


def missed(tables):
    """Return the families that miss a goal: ``{goal: set of families}``."""
    result = {"before": set(), "after": set(), "order": set(), "splits": set(), "memory": set()}
    for table in measured(tables):
        s = score(not_fitted(table))
        point, splits, memory = s["one_point_per_system"], s.get("within_jobs"), s.get("memory")
        for name, value, goal in (
            ("before", s["median_error"], BEFORE),
            ("after", point["median_error"], AFTER),
            ("memory", memory and memory["median_error"], MEMORY),
        ):
            if value is not None and value > goal:
                result[name].add(table.family)
        for name, value in (("order", s["rank_correlation"]),
                            ("splits", splits and splits["mean"])):  # fmt: skip
            if value is not None and value < ORDER:
                result[name].add(table.family)
    return result


def rows(table, lay_out):
    """Return a fold with every row of a table; `lay_out` makes Markdown of head and lines."""
    head = ("ratio", "predicted", "published", "ratio of memory", "what")
    cells = []
    for p in table.predictions:
        memory = f"{p.memory[1] / p.memory[0]:.2f}" if p.memory else ""
        values = ["" if t is None else quantity(t, "s") for t in (p.predicted, p.measured)]
        notes = f" ({p.assumed})" if p.assumed else ""
        ratio = f"{p.ratio:.2f}"
        cells.append((ratio, *values, memory, plain(f"{p.system} [{p.preset}]: {p.what}{notes}")))
    return lay_out(head, cells)


def numbers(tables):
    """Return the numbers about the programs for the page's text."""
    found = programs(tables)
    predictions = [p for table in found for p in table.predictions]
    timed = [p for p in predictions if p.measured is not None]
    ratios = sorted(p.ratio for p in timed) or [float("nan")]
    peaks = [p.memory[1] / p.memory[0] for p in predictions if p.memory] or [float("nan")]
    lowest = {name: _lowest(found, name) for name in ("nanotron", "resnet50")}
    told = [p.fits for p in predictions if p.fits]
    unlike = [int(size[1]) for p in predictions
              if p.fits is None and (size := re.search(r"; (\d+) GiB", p.what))]  # fmt: skip
    qwen = [p.ratio for t in found if t.family == "bridge" for p in t.predictions
            if "Qwen3" in p.what] or [float("nan")]  # fmt: skip
    tail = len(ratios) // 20  # of each end: nine of ten lie between
    s = score(timed)
    point = s["one_point_per_system"]
    return {
        **{f"{name}_low": low for name, low in lowest.items()},
        "bridge_qwen_low": min(qwen),
        "bridge_qwen_high": max(qwen),
        "failed": sum(not really for really, _ in told),
        "failed_said": told.count((False, False)),
        "unlike_rows": len(unlike),
        "unlike_least": min(unlike, default=0),  # GiB
        "memory_rows": 0 if math.isnan(peaks[0]) else len(peaks),
        "memory_tables": sum(any(p.memory for p in table.predictions) for table in found),
        "memory_low": min(peaks),
        "memory_high": max(peaks),
        "memory_most": 1 / min(peaks),
        "memory_least": 1 / max(peaks),
        "memory_median": statistics.median(abs(peak - 1) for peak in peaks),
        "programs_rows": len(predictions),
        "programs_tables": len(found),
        **_of_one_point(tables),
        "programs_low": ratios[0],
        "programs_high": ratios[-1],
        "programs_from": ratios[tail],
        "programs_to": ratios[-1 - tail],
        "programs_median": _number(s["median_error"]),
        "programs_point": _number(point["median_error"]),
        "programs_point_rows": point["rows"],
        "programs_below": sum(ratio < 1 for ratio in ratios) / len(ratios),
    }  # fmt: skip


def _of_one_point(tables):
    """Return in how many tables one measured row makes the others worse, and of how many."""
    scores = [score(not_fitted(table)) for table in measured(tables)]
    both = [
        (before, after) for s in scores
        if (before := s["median_error"]) is not None
        and (after := s["one_point_per_system"]["median_error"]) is not None
    ]  # fmt: skip
    return {"point_tables": len(both), "point_worse": sum(a > b for b, a in both)}


def _number(value):
    return float("nan") if value is None else value


def paper_lines(tables):
    """Return the lines of the paper's formula for memory beside what is simulated, in percent."""
    lines = []
    for table in tables:
        if table.family != PAPER:
            continue
        for row, p in zip(table.rows, table.predictions, strict=True):
            paper = float(row["activation_memory_pct_of_no_recompute"])
            if row["variant"] != "none":  # 100 % by definition
                lines.append((plain(row["model"]), plain(row["variant"]), f"{paper:.1f}%",
                              f"{paper * p.ratio:.1f}%"))  # fmt: skip
    return lines


def fit_lines(tables):
    """Return a line for each table that says what fits in memory: which did, and was said to.

    Its numbers are rows that ran and were said to fit, ran but were not, ran out of memory and were
    said to, and ran out of memory but were said to fit.
    """
    cases = ((True, True), (True, False), (False, False), (False, True))
    found = []
    for table in sorted_by_family(tables):
        told = [p.fits for p in table.predictions if p.fits]
        if told:
            found.append((table.title, *(told.count(case) for case in cases)))
    return found


def _lowest(tables, family):
    ratios = [p.ratio for table in tables if table.family == family for p in table.predictions]
    return min(ratios, default=float("nan"))

"""What a search says: the best plans, how sure it is, and why others were rejected."""

from dataclasses import dataclass

from simgpu.bands.find import find_band, in_words
from simgpu.network import nccl_memory
from simgpu.plan import errors
from simgpu.search.best_first import GAIN, ROOM, Search
from simgpu.units import number, quantity, size

BARELY = " barely"
LITTLE = 0.0005  # of a step: no cause worth a line
HEAD = "plan", "step time", "tokens/s a GPU", "MFU", "memory", "limited by", ""


@dataclass(frozen=True)
class SearchReport:
    """The result of a search.

    Attributes
    ----------
    model, hardware, task : str
        In words; `task` is what the search must not change.
    search : Search
    gpus, tokens : int
        GPUs in all; tokens of a step.
    baseline : Tried, optional
        The plan by rule of thumb; None if none of its kind fits.
    top : int
        Rows of the table.
    cost : callable, optional
        ``cost(step_seconds, step_tokens)`` returns the `simgpu.plan.prices.Cost` of a plan, or None
        if nothing was asked.
    note : str
        What else is to be said of how sure it is.
    """

    model: str
    hardware: str
    task: str
    search: Search
    gpus: int
    tokens: int
    baseline: object = None
    top: int = 5
    cost: object = None
    note: str = ""

    def cost_of(self, tried):
        """Return the `Cost` of a plan, or None."""
        return self.cost and self.cost(tried.step.seconds, self.tokens)

    @property
    def best(self):
        """The fastest plan that fits, or None."""
        return self.search.tried[0] if self.search.tried else None

    def row(self, tried) -> dict:
        """Return the numbers of a plan, for JSON; the end of a key is its unit."""
        step, memory = tried.step, tried.job.cluster.gpu.memory
        cause = max(step.causes, key=step.causes.get)
        return {
            "plan": str(tried.plan),
            "data_parallel": tried.job.replicas,
            "step_time_seconds": step.seconds,
            "expected_seconds": self._expected(tried),
            "tokens_per_second_per_gpu": self.tokens / step.seconds / self.gpus,
            "mfu_share": step.flops / tried.job.peak / self.gpus / step.seconds,
            "peak_memory_bytes": step.memory,
            "peak_reserved_bytes": step.reserved,
            "memory_share": step.memory / memory,
            "fits": tried.fits,
            "limited_by": cause,
            "time_shares": {c: s / step.seconds for c, s in step.causes.items()},
            "cannot_tell": tried is not self.best and self.is_unsure(tried),
            "cost": (cost := self.cost_of(tried)) and cost.to_dict(),
        }

    def _expected(self, tried):
        """Return between which times nine of ten such steps would be; None if that is unknown."""
        band = find_band(tried.kind)
        return [tried.step.seconds * bound for bound in band.span] if band and band.span else None

    def is_unsure(self, tried) -> bool:
        """Return whether published steps do not say which is faster, a plan or the best one."""
        known = errors.is_compared(tried.plan) and errors.is_compared(self.best.plan)
        return not known or abs(self.slower(tried)) < errors.COMPARED

    def slower(self, tried) -> float:
        """Return by what share of the best time a plan takes longer."""
        return tried.step.seconds / self.best.step.seconds - 1

    def to_dict(self) -> dict:
        """Return all numbers, for JSON."""
        result = self.search
        band = self.best and find_band(self.best.kind)
        return {
            "model": self.model, "hardware": self.hardware, "task": self.task,
            "best": str(self.best.plan) if self.best else None,
            "plans": [self.row(tried) for tried in result.tried],
            "baseline": self.row(self.baseline) if self.baseline else None,
            "error_of_time": band and band.to_dict(),
            "error_of_comparison_share": errors.COMPARED,
            "error_source": errors.SOURCE,
            "simulated": result.simulated, "not_simulated": result.skipped,
            "rejected": dict(result.rejected),
        }  # fmt: skip

    def __str__(self):
        lines = [f"simulated, not measured: {self.model}", f"  on {self.hardware}",
                 f"  {self.task}", *self._prices()]  # fmt: skip
        if self.best is None:
            least = min(self.search.too_large.values(), default=None)
            words = f"; the smallest needs {size(least)}" if least else ""
            return "\n".join([*lines, f"no plan fits{words}", *self._rejected()])
        shown = self.search.tried[: self.top]
        rows = [(*HEAD[:-1], *self._money(self.best), HEAD[-1]), *map(self._cells, shown)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines += [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, *self._against_baseline(), *self._sure(), *self._rejected()])

    def _cells(self, tried):
        row = self.row(tried)
        cause = row["limited_by"]
        word = "cannot tell" if row["cannot_tell"] else ""
        return (
            row["plan"], quantity(row["step_time_seconds"], "s"),
            number(row["tokens_per_second_per_gpu"]), f"{row['mfu_share']:.0%}",
            f"{size(round(row['peak_memory_bytes']))} ({row['memory_share']:.0%})"
            + (BARELY if _fits_barely(tried) else ""),
            f"{cause} {row['time_shares'][cause]:.0%}", *self._money(tried).values(),
            "best" if tried is self.best else word,
        )  # fmt: skip

    def _prices(self):
        cost = self.best and self.cost_of(self.best)
        prices = cost and cost.prices
        return [f"  prices of {prices.date}: {prices.source}"] if prices else []

    def _money(self, tried):
        """Return the cells of what a plan costs, by heading; none if nothing was asked."""
        cost = self.cost_of(tried)
        return cost.cells() if cost else {}

    def _against_baseline(self):
        rule = "tensor parallel in the node, the smallest pipeline that fits, the rest data"
        if self.baseline is None:
            return [f"baseline ({rule}): none fits"]
        best, base = self.best.step.seconds, self.baseline.step.seconds
        change = f"{abs(1 - best / base):.0%}"
        if self.baseline.plan == self.best.plan:
            verdict = "it is the best plan"
        elif self.is_unsure(self.baseline):
            word = "less" if best <= base else "more"
            verdict = f"the best plan takes {change} {word}: cannot tell"
        elif best <= base:
            verdict = f"the best plan is faster by {change}"
        else:
            verdict = (
                f"the best plan is slower by {change}, as the baseline ignores options that were "
                "given"
            )
        return [f"baseline ({rule}): {self.baseline.plan}, "
                f"{quantity(self.baseline.step.seconds, 's')}; {verdict}"]  # fmt: skip

    def _sure(self):
        result = self.search
        lines = [
            f"how sure: {in_words(self.best.step.seconds, self.best.kind)}",
            f"  cannot tell: less than {errors.COMPARED:.0%} slower than the best. Published pairs "
            f"that were predicted to differ by more: 19 of 20 were in that order; those by "
            f"{errors.COMPARED:.0%} to {2 * errors.COMPARED:.0%}: {errors.ORDER:.0%}",
        ]
        lines += [f"  {self.note}"] if self.note else []
        if any(map(_fits_barely, result.tried[: self.top])):
            lines.append(
                f" {BARELY}: reserved memory and what is not counted (CUDA's context, NCCL's "
                "buffers) are more than a GPU has; simgpu plan with a plan's options says more"
            )
        if result.skipped:
            lines.append(
                f"{result.simulated} plans simulated; {result.skipped} more cannot be "
                f"{GAIN:.0%} faster than the best of them, by a lower bound (not a prediction)"
            )
        return lines

    def _rejected(self):
        rejected = self.search.rejected
        if not rejected:
            return []
        lines = [f"{rejected.total():,} plans rejected (--why PLAN explains one)"]
        return lines + [f"  {count:>7,}  {reason}" for reason, count in rejected.most_common()]


def _fits_barely(tried):
    """Whether it fits only if the allocator finds room beside what is not counted."""
    step, memory = tried.step, tried.job.cluster.gpu.memory
    return nccl_memory.may_be_too_much(step.reserved, step.context_bytes, memory)


def explain(report, tried) -> str:
    """Return what a plan takes against the best one, cause by cause."""
    row, best = report.row(tried), report.best
    memory = tried.job.cluster.gpu.memory
    line = f"{tried.plan}: {quantity(tried.step.seconds, 's')} a step, MFU {row['mfu_share']:.0%}"
    unsure = "" if errors.is_compared(tried.plan) else f"\n{errors.UNKNOWN}"
    needs = f"{size(round(tried.step.memory))} of {size(memory)}"
    if not tried.fits:
        return (f"{tried.plan}: does not fit: needs {needs}; a plan may need {ROOM:.0%} of it\n"
                f"  (its step would take {quantity(tried.step.seconds, 's')})")  # fmt: skip
    if best is None or tried.plan == best.plan:
        return f"{line}, memory {needs}: the best plan"
    more = report.slower(tried)
    word = f"{more:+.0%}" + (": cannot tell" if report.is_unsure(tried) else "")
    took = quantity(best.step.seconds, "s")
    lines = [f"{line}, memory {needs}; fits", f"against the best, {best.plan}, {took}: {word}"]
    causes = sorted(
        tried.step.causes,
        key=lambda c: best.step.causes[c] - tried.step.causes[c],
    )  # fmt: skip
    for cause in causes:
        ours, theirs = tried.step.causes[cause], best.step.causes[cause]
        if max(ours, theirs) < LITTLE * best.step.seconds:
            continue
        lines.append(f"  {cause:<20} {quantity(ours, 's'):>9}  best {quantity(theirs, 's'):>9}  "
                     f"{(ours - theirs) / best.step.seconds:+.1%} of its step")  # fmt: skip
    return "\n".join(lines) + unsure

"""A run beside published ones and beside the simulated one, as numbers and as a text."""

from dataclasses import dataclass, replace

from simgpu.bands.find import in_words
from simgpu.compare.published import NEAR, TrainingRun, nearest
from simgpu.compare.verdict import bubble, judge, measured_time
from simgpu.plan.report import Report, report_of
from simgpu.plan.step.job import PlanError
from simgpu.units import number, percent, quantity

CLEAR = 0.01  # a change by a smaller share is not listed


@dataclass(frozen=True)
class Comparison:
    """What a run reached, what is simulated for it, and what others have published.

    Attributes
    ----------
    report : Report
        The simulated step.
    step_time_seconds : float
        Of the run.
    verdict : str
    published : list of dict
        The nearest published runs, each with its distance.
    bubble_share : float
        Of the time, in an ideal pipeline.
    changes : list of dict, optional
        What changes of the options would bring, as simulated, the fastest first; None: not tried.
    """

    report: Report
    step_time_seconds: float
    verdict: str
    published: list
    bubble_share: float
    changes: list | None = None

    def to_dict(self) -> dict:
        """Return all numbers and texts, for JSON; the end of a key is its unit."""
        report, seconds = self.report, self.step_time_seconds
        return {
            "model": report.model, "gpus": report.gpus,
            "hardware": report.hardware, "program": report.program,
            "measured_step_time_seconds": seconds,
            "measured_tokens_per_second": report.tokens_per_step / seconds,
            "measured_mfu_share": report.mfu_share * report.step_time_seconds / seconds,
            "predicted_step_time_seconds": report.step_time_seconds,
            "predicted_tokens_per_second": report.rate, "predicted_mfu_share": report.mfu_share,
            "band": report.band and report.band.to_dict(),
            "fits": report.fits, "verdict": self.verdict,
            "published": self.published, "time_shares": report.time_shares,
            "bubble_share": self.bubble_share, "try": self.changes,
        }  # fmt: skip

    def __str__(self):
        report, numbers = self.report, self.to_dict()
        rows = [
            f"{name:<10} {quantity(numbers[name + '_step_time_seconds'], 's'):<10} "
            f"{number(numbers[name + '_tokens_per_second'])} tokens/s, "
            f"{number(numbers[name + '_tokens_per_second'] / report.gpus)} a GPU, "
            f"MFU {percent(numbers[name + '_mfu_share'])}"
            for name in ("measured", "predicted")
        ]
        shares = sorted(report.time_shares.items(), key=lambda pair: -pair[1])
        near = [row for row in self.published if row["distance"] <= NEAR]
        return "\n".join([
            report.model, f"  on {report.hardware}", f"  {report.program}", *rows,
            f"how sure: {in_words(report.step_time_seconds, report.kind)}",
            f"verdict: {self.verdict}",
            *([] if report.fits else [
                "note: by the simulation, a run with these options DOES NOT FIT in memory;",
                "  if yours did, add what saves memory in it, such as --recompute, --shard or --tp",
            ]),
            "nearest published runs:" if near else "no published run is near; the nearest ones:",
            *(_row_in_words(row) for row in near or self.published),
            "the simulated step:",
            *(f"  {cause:<24} {percent(share)}" for cause, share in shares),
            *([f"  of it, an ideal pipeline's bubble: {percent(self.bubble_share)}"]
              if self.bubble_share else []),
            *_changes_in_words(self.changes),
        ])  # fmt: skip


def compare_run(request, reached, try_changes=False) -> Comparison:
    """Compare a run with published ones and with the simulated one.

    Parameters
    ----------
    request : Request
        How the run is configured.
    reached : dict
        The number that it reached, under one of the names of `verdict.REACHED`.
    try_changes : bool
        Simulate changes of the options, too.

    Raises
    ------
    PlanError
        If the number is not valid, or the plan is impossible.
    """
    model = request.model
    if not model.has_sizes:
        raise PlanError(f"{model.name}: give a preset or a .json file; sizes are compared")
    job, report = request.job(), report_of(request)
    seconds = measured_time(reached, report)
    run = TrainingRun(model.parameters / 1e9, bool(model.experts), job.cluster.gpu.name,
                      request.gpus, model.seq)  # fmt: skip
    return Comparison(
        report, seconds, judge(seconds / report.step_time_seconds, report.band, report.gpus),
        [{"distance": distance, **vars(row)} for distance, row in nearest(run)], bubble(job),
        _changes(request, report) if try_changes else None,
    )  # fmt: skip


def _changes(request, report):
    """Return what is simulated with each option that may help, the fastest first."""
    results = []
    for option, changed in _candidates(request):
        try:
            other = report_of(changed)
        except ValueError:  # the option does not fit the others
            continue
        faster = report.step_time_seconds / other.step_time_seconds - 1
        if faster > CLEAR:
            results.append({"option": option, "faster_share": faster, "fits": other.fits})
    return sorted(results, key=lambda one: (not one["fits"], -one["faster_share"]))


def _candidates(request):
    """Yield options that are worth a simulation, each with the request that has it."""
    plan, workload = request.plan, request.workload

    def changed(option, value):
        other = replace(request, plan=replace(plan, **{option: value}))
        return f"--{option.replace('_', '-')} {value}", other

    if not workload.compiled:
        yield "--compiled", replace(request, workload=replace(workload, compiled=True))
    if plan.recompute != "none":
        yield changed("recompute", "none")
    if workload.global_batch is not None:  # otherwise another batch would be compared
        yield changed("micro_batch", 2 * plan.micro_batch)
        if plan.pp > 1 and plan.schedule == "1f1b":
            yield changed("schedule", "interleaved")
        if plan.tp > 1:
            yield changed("tp", plan.tp // 2)


def _changes_in_words(changes):
    if changes is None:
        return ["note: --try simulates what other options would take, too"]
    if not changes:
        return ["to try: no change that was simulated is faster"]
    return ["to try, as simulated:", *(
        f"  {one['option']:<24} {percent(one['faster_share'])} more tokens/s"
        + ("" if one["fits"] else ", but DOES NOT FIT")
        for one in changes
    )]  # fmt: skip


def _row_in_words(row):
    mfu = "" if row["mfu_percent"] is None else f", MFU {number(row['mfu_percent'])} %"
    return (
        f"  {number(row['tokens_per_second_per_gpu'])} tokens/s a GPU{mfu}: "
        f"{number(row['billions'])} billion, {row['gpus']} x {row['gpu']}, sequences of "
        f"{row['sequence']:,}; {row['what']}\n    {row['source']}: {row['reference']}"
    )

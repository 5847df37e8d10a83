"""What the time of a run says beside the predicted one."""

import math

from simgpu.bands.find import few_in_words
from simgpu.plan.step.rules import PlanError

REACHED = ("tokens_per_second", "step_time", "mfu")  # what a run can be known by

ACCOUNT = "check how tokens, padding, GPUs and FLOPs are counted, and that the options are yours"


def judge(ratio, band, gpus=1) -> str:
    """Return the verdict on a run of `gpus` GPUs that took `ratio` times the predicted time.

    `band` is the `Band` of its kind, or None.
    """
    if band is None:
        return (
            f"cannot tell: {ratio:.2f} times the predicted time, and no step of this kind was "
            "published"
        )
    if not band.is_known:
        return f"cannot tell: {ratio:.2f} times the predicted time; {few_in_words(band)}"
    low, high = band.span
    if gpus > 2 and low <= ratio / gpus <= high:
        return (
            f"slower than predicted: {ratio:.3g} times the predicted time, about as many times as "
            f"there are GPUs. Was the rate that of one GPU? Give that of all {gpus}"
        )
    if ratio > high:
        return f"slower than predicted: {ratio:.2f} times the predicted time"
    if ratio < low:
        return f"faster than predicted: {ratio:.2f} times the predicted time; {ACCOUNT}"
    return f"reasonable: {ratio:.2f} times the predicted time, within the band"


def measured_time(reached, report) -> float:
    """Return the seconds of the run's step, from the one number that it reached.

    Raises
    ------
    PlanError
        If there is not exactly one, or it is not valid.
    """
    given = [(name, value) for name, value in reached.items() if value is not None]
    if len(given) != 1:
        raise PlanError(f"{len(given)} numbers of the run; give one of {', '.join(REACHED)}")
    ((name, value),) = given
    option = name.replace("_", "-")
    if not (value > 0 and math.isfinite(value)):
        raise PlanError(f"--{option} {value}: give a number above 0")
    if name == "mfu" and not 1 <= value <= 100:
        raise PlanError(f"--mfu {value}: give per cent, 1 to 100, such as 45")
    if name == "step_time":
        return value
    if name == "tokens_per_second":
        return report.tokens_per_step / value
    return report.step_time_seconds * 100 * report.mfu_share / value


def bubble(job) -> float:
    """Return the share of the time that a pipeline of equal stages is idle."""
    idle = (job.pipeline - 1) / job.program.chunks
    return idle / (job.micro_batches + idle)

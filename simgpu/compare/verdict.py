"""What the time of a run says beside the predicted one."""

from simgpu.plan.errors import UNKNOWN, band_of

ACCOUNT = "check how tokens, padding, GPUs and FLOPs are counted, and that the options are yours"


def judge(ratio, experts, gpus=1, context=1) -> str:
    """Return the verdict on a run of `gpus` GPUs that took `ratio` times the predicted time."""
    band = band_of(experts, context)
    if band is None:
        return f"cannot tell: {ratio:.2f} times the predicted time, and {UNKNOWN}"
    low, high = band
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


def measured_time(args, report) -> float:
    """Return the seconds of the run's step, from the one number that is given."""
    if args.step_time is not None:
        return args.step_time
    if args.tokens_per_second is not None:
        return report.tokens_per_step / args.tokens_per_second
    return report.step_time_seconds * 100 * report.mfu_share / args.mfu


def bubble(job) -> float:
    """Return the share of the time that a pipeline of equal stages is idle."""
    idle = (job.pipeline - 1) / job.program.chunks
    return idle / (job.micro_batches + idle)

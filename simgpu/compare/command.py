"""The command ``simgpu compare``: a run beside published ones and beside the simulated one."""

import copy
import json
import math
import warnings

from simgpu.compare.published import NEAR, Run, nearest
from simgpu.compare.verdict import bubble, judge, measured_time
from simgpu.plan import options
from simgpu.plan.command import plan
from simgpu.plan.errors import band_of
from simgpu.plan.model_file import find_model
from simgpu.plan.step.job import PlanError
from simgpu.units import number, percent, quantity

CLEAR = 0.01  # a change by a smaller share is not listed


def make_parser():
    """Return the parser: that of ``simgpu plan``, and what the run reached."""
    parser = options.make_parser()
    parser.prog = "simgpu compare"
    parser.description = "Compare a run with published ones, and with what is simulated for it."
    reached = parser.add_argument_group("what the run reaches").add_mutually_exclusive_group(
        required=True
    )
    add = reached.add_argument
    add("--tokens-per-second", type=float, metavar="N", help="of all GPUs")
    add("--step-time", type=float, metavar="SECONDS")
    add("--mfu", type=float, metavar="PERCENT", help="without what is computed again")
    parser.add_argument(
        "--try", dest="changes", action="store_true",
        help="simulate changes of the options, too; this takes several times as long",
    )  # fmt: skip
    return parser


def main(argv=None) -> int:
    """Print the comparison; return the exit code."""
    parser = make_parser()
    args = parser.parse_args(argv)
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    try:
        found = compare(args)
    except ValueError as error:
        parser.error(str(error))
    print(json.dumps(found) if args.json else in_words(found))
    return 0


def compare(args) -> dict:
    """Return the comparison as numbers and texts."""
    _check(args)
    model = find_model(args.model)
    job = options.job_of(args, model)
    report = plan(args)
    seconds = measured_time(args, report)
    run = Run(model.parameters / 1e9, bool(model.experts), job.cluster.gpu.name, report.gpus,
              job.model.seq)  # fmt: skip
    return {
        "model": report.model, "gpus": report.gpus,
        "hardware": report.hardware, "program": report.program,
        "measured_step_time_seconds": seconds,
        "measured_tokens_per_second": report.tokens_per_step / seconds,
        "measured_mfu_share": report.mfu_share * report.step_time_seconds / seconds,
        "predicted_step_time_seconds": report.step_time_seconds,
        "predicted_tokens_per_second": report.rate, "predicted_mfu_share": report.mfu_share,
        "band": band_of(run.experts, args.cp), "fits": report.fits,
        "verdict": judge(seconds / report.step_time_seconds, run.experts, report.gpus, args.cp),
        "published": [{"distance": d, **vars(row)} for d, row in nearest(run)],
        "time_shares": report.time_shares, "bubble_share": bubble(job),
        "try": changes(args, report) if args.changes else None,
    }  # fmt: skip


def _check(args):
    for name in ("tokens_per_second", "step_time", "mfu"):
        value, option = getattr(args, name), name.replace("_", "-")
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise PlanError(f"--{option} {value}: give a number above 0")
    if args.mfu is not None and not 1 <= args.mfu <= 100:
        raise PlanError(f"--mfu {args.mfu}: give per cent, 1 to 100, such as 45")
    if args.model.endswith(".py"):
        raise PlanError(f"{args.model}: give a preset or a .json file; sizes are compared")
    if args.search or args.why or args.export:
        raise PlanError("--search, --why and --export belong to simgpu plan; leave them out")


def changes(args, report) -> list[dict]:
    """Return what a re-plan says of each option that may help, the fastest first."""
    found = []
    for option, value in _candidates(args):
        other = copy.copy(args)
        setattr(other, option, value)
        try:
            changed = plan(other)
        except ValueError:  # the option does not fit the others
            continue
        faster = report.step_time_seconds / changed.step_time_seconds - 1
        if faster > CLEAR:
            words = f"--{option.replace('_', '-')}" + ("" if value is True else f" {value}")
            found.append({"option": words, "faster_share": faster, "fits": changed.fits})
    return sorted(found, key=lambda one: (not one["fits"], -one["faster_share"]))


def _candidates(args):
    """Return (option, value) that are worth a simulation for this configuration."""
    yield from () if args.compiled else [("compiled", True)]
    yield from () if args.recompute == "none" else [("recompute", "none")]
    if args.global_batch is not None:  # otherwise another batch would be compared
        yield "micro_batch", 2 * args.micro_batch
        if args.pp > 1 and args.schedule == "1f1b":
            yield "schedule", "interleaved"
        if args.tp > 1:
            yield "tp", args.tp // 2


def in_words(found) -> str:
    """Return the comparison as a text."""
    band = "no band: too few steps with context parallelism were published"
    if found["band"]:
        low, high = found["band"]
        band = f"nine of ten published steps took {low} to {high} times the predicted time"
    rows = [
        f"{name:<10} {quantity(found[name + '_step_time_seconds'], 's'):<10} "
        f"{number(found[name + '_tokens_per_second'])} tokens/s, "
        f"{number(found[name + '_tokens_per_second'] / found['gpus'])} a GPU, "
        f"MFU {percent(found[name + '_mfu_share'])}"
        for name in ("measured", "predicted")
    ]
    shares = sorted(found["time_shares"].items(), key=lambda pair: -pair[1])
    near = [row for row in found["published"] if row["distance"] <= NEAR]
    tries = [
        f"  {one['option']:<24} {percent(one['faster_share'])} more tokens/s"
        + ("" if one["fits"] else ", but DOES NOT FIT")
        for one in found["try"] or ()
    ]
    return "\n".join([
        found["model"], f"  on {found['hardware']}", f"  {found['program']}", *rows,
        band,
        f"verdict: {found['verdict']}",
        *([] if found["fits"] else [
            "note: by the simulation, a run with these options DOES NOT FIT in memory;",
            "  if yours did, add what saves memory in it, such as --recompute, --shard or --tp",
        ]),
        "nearest published runs:" if near else "no published run is near; the nearest ones:",
        *(_row_in_words(row) for row in near or found["published"]),
        "the simulated step:",
        *(f"  {cause:<24} {percent(share)}" for cause, share in shares),
        *([f"  of it, an ideal pipeline's bubble: {percent(found['bubble_share'])}"]
          if found["bubble_share"] else []),
        _heading(found["try"]),
        *tries,
    ])  # fmt: skip


def _heading(tried):
    if tried is None:
        return "--try simulates changes of the options"
    return "to try, as simulated:" if tried else "to try: no change that was simulated is faster"


def _row_in_words(row):
    mfu = "" if row["mfu_percent"] is None else f", MFU {number(row['mfu_percent'])} %"
    return (
        f"  {number(row['tokens_per_second_per_gpu'])} tokens/s a GPU{mfu}: "
        f"{number(row['billions'])} billion, {row['gpus']} x {row['gpu']}, sequences of "
        f"{row['sequence']:,}; {row['what']}\n    {row['source']}: {row['reference']}"
    )

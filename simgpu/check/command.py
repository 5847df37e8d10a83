"""The command ``simgpu check``: what it does with its options."""

import subprocess
import sys
import time
import traceback

from simgpu.check import budget, report, tolerance
from simgpu.check.comparison import compare
from simgpu.check.findings import UNKNOWN
from simgpu.check.options import make_parser, on_one_gpu, parse
from simgpu.check.replicas import starts_elsewhere
from simgpu.check.watch.files import describe
from simgpu.check.watch.one_run import Job
from simgpu.command_line import Progress
from simgpu.ranks.process.scheduler import RanksError
from simgpu.run import options


def main(argv=None) -> int:
    """Check a script; return the exit code: 0 equal, 1 different, 2 not run or not compared."""
    parser = make_parser()
    args = parse(parser, sys.argv[2:] if argv is None else argv)
    try:
        options.notes(args)
        many = Job(args, args.show)
        if args.record is not None or args.against is not None:
            return budget.main(args, many)
        starts_itself = options.starts_itself(args, many.script)
        one = Job(on_one_gpu(args, starts_itself), args.show)
        if not starts_itself and many.cluster.world_size < 2:
            raise ValueError("--nproc-per-node: give the number of GPUs to compare with one")
    except (OSError, ValueError) as error:
        parser.error(str(error))
    except SyntaxError as error:
        traceback.print_exception(type(error), error, None)
        return UNKNOWN
    try:
        return check(args, one, many)
    except subprocess.CalledProcessError as error:
        say(f"--before: {error.cmd} failed (exit code {error.returncode})")
        return UNKNOWN


def check(args, one_job, many_job) -> int:
    """Run both, and print what differs; return the exit code."""
    say(f"runs {one_job.script.name} on one GPU ...")
    since, began = time.time(), time.monotonic()
    one = run(args, one_job)
    took = time.monotonic() - began
    if one.code or not one.num_steps:
        return _could_not_run(one, "one GPU", "--one 'ARGUMENTS' gives it other arguments there")
    again = None
    if args.tolerance is None and one.can_reverse:
        say("again, with each batch in reverse order, to see what rounding changes ...")
        again = run(args, one_job, reverse=True, since=since)
        if name := starts_elsewhere(one, again):
            return _could_not_repeat(name)
    say(f"on {args.nproc_per_node or 'its'} GPUs; one took {took:.1f} s ...")
    many = run(args, many_job, since=since)
    size = many_job.cluster.world_size
    if not isinstance(many.error, RanksError) and (many.code or not many.num_steps):
        return _could_not_run(many, f"{size} GPUs", "simgpu run shows more")
    allowed = tolerance.choose(one, again, args.tolerance)
    result = compare(one, many, allowed, args.any_data)
    again_read = describe((again.files if again else {}) | many.files)
    if again_read and args.before is None:  # else it has put there what is to be read
        result.notes.insert(0, again_read)
    result.notes += dict.fromkeys(one.unwritten + many.unwritten)
    steps = min(one.num_steps, many.num_steps)
    given = result, allowed, one_job.script.name, steps, size
    if args.json != "-":
        print(report.text_of(*given))
    if args.json is not None:
        report.write_json(args.json, report.dict_of(*given))
    return result.code


def run(args, job, **how):
    """Run a script after the command that is to run before, and show how many steps it has made."""
    if args.before is not None:
        subprocess.run(args.before, shell=True, check=True)
    with Progress("step", job.steps_made):
        return job.run(**how)


def _could_not_repeat(name):
    say(
        f"the second run on one GPU begins with other weights than the first, such as {name}: the "
        "script resumes from what it has written (--before 'rm -rf FOLDER' runs a command before "
        "each run), or draws weights without a seed"
    )
    return UNKNOWN


def _could_not_run(run, where, remedy):
    """Say why a run says nothing."""
    if run.code:
        sys.stderr.write(run.text)
        say(f"the script failed on {where} (exit code {run.code}); {remedy}")
    else:
        say(
            f"no optimizer.step() was called on {where}, so there is no step to compare{_seen(run)}"
        )
    if warning := describe(run.files):
        say(f"warning: {warning}")
    return UNKNOWN


def _seen(run):
    """Say what a script has that updates its weights without an optimizer of PyTorch."""
    count, line = run.losses()
    if not count:
        return ""
    return (
        f". It has called backward() {count} times ({line}): let an optimizer of torch.optim "
        "change the weights, or a class of yours that inherits from torch.optim.Optimizer"
    )


def say(text) -> None:
    """Print what the command says beside its report."""
    print(f"simgpu check: {text}", file=sys.stderr, flush=True)

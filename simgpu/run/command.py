"""The command ``simgpu run``: what it does with its options."""

import json
import sys
import threading
import traceback
from contextlib import contextmanager, nullcontext

import simgpu as sim
from simgpu.backend import unwritten
from simgpu.backend.routing import Routing
from simgpu.clock.current import state
from simgpu.compiled.gain import compiled_notes, has_compiled
from simgpu.run import faults, options, page
from simgpu.run.cuda.spelling import cuda_spelling, mentions_cuda
from simgpu.run.failures import describe_left, say
from simgpu.run.finite import missing_is_finite
from simgpu.run.loader import choice
from simgpu.run.loader.lane import Loaders
from simgpu.run.processes import Driver
from simgpu.run.script import Script
from simgpu.run.simulated_time import SimulatedTime
from simgpu.run.steps import Steps
from simgpu.run.summary import summarize
from simgpu.run.torchrun import Torchrun

PATIENCE = 20.0  # real seconds
ON_GPU = "compute", "comm", "h2d", "d2h", "p2p"  # engines


def main(argv=None) -> int:
    """Run a script on simulated GPUs; return the exit code."""
    parser = options.make_parser()
    args = parser.parse_args(argv)
    try:
        notes = options.notes(args)
        Routing(args.routing)  # raises if it is invalid
        page.check(args.timeline)
        wrong, work = faults.parse(args.slow, args.kill, args.slow_card), options.per_step(args)
        steps = Steps(args.steps, options.host_per_step(args))
        loaders = Loaders(choice.parse(args.loader), steps)
        script = Script(args.script, args.args, args.module)
        start = Driver if options.starts_itself(args, script) else Torchrun
        job = start(script, args, wrong)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    for note in notes:
        say(note)
    try:
        script.compile()
    except (SyntaxError, ValueError) as error:
        traceback.print_exception(type(error), error, None)
        return 1
    script.add_folder()
    with (
        cuda_spelling(mentions_cuda(script.path), say, args.eager) as compiled,
        SimulatedTime(not args.wall_clock) as time,
        steps,
        loaders,
        missing_is_finite(args.shapes_only),
        nullcontext() if args.shapes_only else unwritten.watching() as seen,
        hint(steps, args.shapes_only),
    ):
        code = run(job, args.max_restarts, time, steps)
    sys.stdout.flush()
    notes = [*compiled_notes(compiled, steps), *loaders.notes(), *job.notes]
    notes += seen.texts if seen else []
    if steps.cut_short:
        notes.append(f"the script was ended after {args.steps} steps (--steps)")
    routing = state.machine and state.machine.routing
    if routing and routing.used:
        notes.append(f"the indices of topk are those of --routing, not of scores: {routing}")
    fused = has_compiled(compiled)
    return code or report(args, job, script, steps, wrong, work, fused, loaders, notes)


@contextmanager
def hint(steps, shapes_only):
    """Say once, where somebody looks, that the first step takes long because of its values."""
    stream = sys.stderr  # while ranks run, it is that of one of them

    def tell():
        if not steps.have_begun_to_end:
            text = f"no step has ended in {PATIENCE:g} s; --shapes-only computes times alone"
            print(f"simgpu run: {text}", file=stream, flush=True)

    timer = threading.Timer(PATIENCE, tell)
    timer.daemon = True
    if stream.isatty() and not shapes_only:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def run(job, max_restarts, time, steps) -> int:
    """Run a script until it succeeds, or has been started again often enough."""
    code = job.run(0, time, steps)
    for restart in range(1, max_restarts + 1):
        if code == 0:
            break
        say(f"all ranks start again: restart {restart} of {max_restarts}")
        code = job.run(restart, time, steps)
    return code


def report(args, job, script, steps, wrong, work, fused, loaders, notes) -> int:
    """Print where the time went, and write the timeline; return the exit code."""
    spans = sim.trace()
    if not any(span.engine in ON_GPU for span in spans):
        return _report_nothing(script, job)
    if not any(span.device.startswith("rank ") for span in spans):
        say(f"{script.name} started no ranks; give --nproc-per-node 1 to run it as a rank")
        return 1
    summary = summarize(spans, steps, job.cluster, wrong, work, fused, loaders)
    if job.left and not summary.num_steps and not summary.mfu:  # nothing to sum up
        notes = [describe_left(job.left, job.cluster.world_size), *notes]
    text = "\n".join([str(summary), *(f"note: {note}" for note in [*notes, *summary.doubts()])])
    try:
        _print(json.dumps(summary.to_dict()) if args.summary == "json" else text)
    finally:  # also if nobody reads what is printed
        written = _write(args.timeline, spans, steps, f"{script.name}\n\n{text}")
    return 0 if written else 1


def _write(path, spans, steps, text):
    """Write the timeline, if one is asked for; return whether that has worked."""
    try:
        if path is not None:
            page.write(path, spans, steps, text)
    except OSError as error:
        say(f"--timeline {path}: {error.strerror}; the summary is complete")
        return False
    return True


def _print(text):
    """Print a text; what the terminal cannot show becomes a question mark."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))


def _report_nothing(script, job):
    """Report that no simulated GPU was used."""
    if job.left:
        say(describe_left(job.left, job.cluster.world_size))
        return 0
    say(
        f"{script.name} used no simulated GPU: take the device from 'cuda' or "
        "torch.accelerator.current_accelerator()"
    )
    return 0

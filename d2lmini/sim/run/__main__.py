"""The command: its options, and what it does one after the other."""

import argparse
import os
import sys
from pathlib import Path

from d2lmini import sim
from d2lmini.sim import naming
from d2lmini.sim.configure import MAX_DEVICES
from d2lmini.sim.run import page
from d2lmini.sim.run.cuda import NoCuda, line_with_cuda
from d2lmini.sim.run.script import Script
from d2lmini.sim.run.steps import Steps
from d2lmini.sim.run.summary import summarize

INTERRUPTED = 130  # the exit code of a program that was ended by Ctrl-C


def main(argv=None) -> int:
    """Run a script on simulated GPUs; return the exit code."""
    parser = make_parser()
    args = parser.parse_args(argv)
    try:
        machine = machine_of(args)
        page.check(args.timeline)
        script = Script(args.script, args.args)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    naming.take_slot()
    with NoCuda(), Steps() as steps:
        code = script.run(**machine)
    sys.stdout.flush()
    return code or report(args, steps)


def make_parser():
    """Return the parser; what follows the script is the script's own."""
    parser = argparse.ArgumentParser(
        prog="python -m d2lmini.sim.run",
        description="Run a script for torchrun on simulated GPUs, and say what its time went on.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--nproc-per-node", "--nproc_per_node", type=int, default=1, metavar="K",
        help="how many ranks, each with a simulated GPU (default: 1)",
    )  # fmt: skip
    add("--gpu", default="v100", help=f"{', '.join(sim.GPUS)} (default: v100)")
    add("--link", default="pcie3", help=f"{', '.join(sim.LINKS)} (default: pcie3)")
    add("--shapes-only", action="store_true", help="compute no values, only times and memory")
    add(
        "--timeline", metavar="FILE", type=Path,
        help=".html: a page that shows one step; .json: the whole run, for Chrome and Perfetto",
    )  # fmt: skip
    add("script", help="the Python file to run")
    add("args", nargs=argparse.REMAINDER, help="of the script")
    return parser


def machine_of(args) -> dict:
    """Return the arguments of `d2lmini.sim.spawn` that say what to simulate.

    Raises
    ------
    ValueError
        If there is no such hardware, or not as much of it.
    """
    if not 1 <= args.nproc_per_node <= MAX_DEVICES:
        raise ValueError(
            f"--nproc-per-node {args.nproc_per_node}; give a number from 1 to {MAX_DEVICES}"
        )
    return {
        "nprocs": args.nproc_per_node,
        "gpu": sim.find_gpu(args.gpu),
        "link": sim.find_link(args.link),
        "numerics": not args.shapes_only,
    }


def report(args, steps) -> int:
    """Print what the time went on, and write the timeline; return the exit code."""
    spans = sim.trace()
    if not any(span.engine == "compute" for span in spans):
        return _report_nothing(args.script)
    text = str(summarize(spans, steps))
    print(text)
    if args.timeline:
        page.write(args.timeline, spans, steps, f"{Path(args.script).name}\n\n{text}")
    return 0


def _report_nothing(script):
    """Say that no simulated GPU was used; an error if the script may have looked for a real one."""
    line = line_with_cuda(script)
    hint = f"; {line} looks for CUDA" if line else ""
    print(
        f"d2lmini.sim.run: {Path(script).name} used no simulated GPU{hint}: take the device from "
        "torch.accelerator.current_accelerator()",
        file=sys.stderr,
    )
    return 1 if line else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("d2lmini.sim.run: interrupted", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # threads of ranks may still run, and would crash the usual end

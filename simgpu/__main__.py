"""The command ``simgpu``, also as ``python -m simgpu``.

PyTorch takes seconds to import, so a command's options are parsed before: ``--help`` and mistakes
are answered at once.
"""

import os
import sys
from importlib.metadata import version

import simgpu
from simgpu import list_gpus
from simgpu.check import options as of_check
from simgpu.compare import options as of_compare
from simgpu.nearest import unknown
from simgpu.plan import options as of_plan
from simgpu.run import options as of_run

INTERRUPTED = 130  # the exit code of a program that Ctrl-C has ended
USAGE = """\
usage: simgpu COMMAND ...

  simgpu run SCRIPT    run a torchrun script on simulated GPUs
  simgpu plan MODEL    simulate a training step of a model on up to thousands of GPUs, or
                       search the fastest way to split it (--search)
  simgpu compare MODEL  say whether the speed of a run of yours is reasonable
  simgpu check SCRIPT  compare a script on one GPU and on many, or a run with a record
  simgpu gpus          list the hardware that can be simulated, and its sources
  simgpu calibrate     measure a GPU, for `simgpu run --gpu FILE.json`

`simgpu COMMAND --help` lists the options of a command, `simgpu --version` prints the versions."""


def run_script(arguments) -> int:
    """Run the command ``simgpu run``."""
    of_run.make_parser().parse_args(arguments)
    from simgpu.run.command import main

    return main(arguments)


def plan(arguments) -> int:
    """Run the command ``simgpu plan``."""
    of_plan.make_parser().parse_args(arguments)
    from simgpu.plan.command import main
    from simgpu.search.command import print_search

    return main(arguments, print_search)


def compare(arguments) -> int:
    """Run the command ``simgpu compare``."""
    of_compare.make_parser().parse_args(arguments)
    from simgpu.compare.command import main

    return main(arguments)


def check(arguments) -> int:
    """Run the command ``simgpu check``."""
    of_check.parse(of_check.make_parser(), arguments)
    from simgpu.check.command import main

    return main(arguments)


def calibrate(arguments) -> int:
    """Run the command ``simgpu calibrate``."""
    from simgpu.calibration import main

    return main(arguments)


COMMANDS = {
    "run": run_script, "plan": plan, "compare": compare, "check": check,
    "gpus": list_gpus.main, "calibrate": calibrate,
}  # fmt: skip


def main(argv=None) -> int:
    """Run the command that the arguments name; return the exit code."""
    name, *arguments = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in ("-h", "--help"):
        print(USAGE)
        return 0
    if name == "--version":
        print(f"simgpu {simgpu.__version__}, PyTorch {version('torch')}")
        return 0
    if name not in COMMANDS:
        wrong = unknown("command", name, COMMANDS)
        print(f"simgpu: {wrong}\n`simgpu --help` says what they do.", file=sys.stderr)
        return 2
    return COMMANDS[name](arguments)


def run() -> None:
    """Run `main` and exit, without a traceback after Ctrl-C or a closed output pipe."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print(f"simgpu {' '.join(sys.argv[1:2])}: interrupted", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # rank threads may still run and would crash a normal exit
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    run()

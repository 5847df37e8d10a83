"""The command ``simgpu``, also as ``python -m simgpu``."""

import os
import sys

from simgpu import list_gpus
from simgpu.calibrate import main as calibrate
from simgpu.run import command

INTERRUPTED = 130  # the exit code of a program that was ended by Ctrl-C
COMMANDS = {"run": command.main, "gpus": list_gpus.main, "calibrate": calibrate}
USAGE = """\
usage: simgpu COMMAND ...

  simgpu run SCRIPT    run a script for torchrun on simulated GPUs
  simgpu gpus          list the hardware that can be simulated, and its sources
  simgpu calibrate     measure a GPU, for `simgpu run --gpu FILE.json`

`simgpu COMMAND --help` lists the options of a command."""


def main(argv=None) -> int:
    """Run one of the commands; return the exit code."""
    name, *arguments = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in ("-h", "--help"):
        print(USAGE)
        return 0
    if name not in COMMANDS:
        print(f"simgpu: there is no command {name!r}\n\n{USAGE}", file=sys.stderr)
        return 2
    return COMMANDS[name](arguments)


def run() -> None:
    """Run `main` and end the process, quietly after Ctrl-C and where nobody reads the output."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print(f"simgpu {' '.join(sys.argv[1:2])}: interrupted", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # threads of ranks may still run, and would crash the usual end
    except BrokenPipeError:  # whoever read the output, as `head` does, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    run()

"""Report which rank of a script failed, as under ``torchrun``."""

import sys
import traceback
from contextlib import contextmanager

from simgpu.ranks.communication.checks.refusal import count
from simgpu.ranks.process.scheduler import Stopped
from simgpu.ranks.pytorch.patches import BackendError
from simgpu.run.cuda import refused
from simgpu.user_frame import line_of_error


class StartError(RuntimeError):
    """A script starts processes, or joins ranks, where it cannot."""


class Failures:
    """What went wrong in a run of a script.

    Parameters
    ----------
    script : Script
    """

    def __init__(self, script):
        self._script = script
        self._last = None  # the rank that failed, in the last run if there are two; its error
        self.left = {}  # rank -> the line where it left by exit()

    @contextmanager
    def recorded(self, rank):
        """Record an error in the program of a rank, in a ``with`` block."""
        try:
            yield
        except Stopped:
            raise
        except SystemExit as error:
            if error.code not in (None, 0):
                self._record(rank, error)
                raise
            self.left[rank] = line_of_error(error)
        except BaseException as error:
            self._record(rank, error)
            raise

    def _record(self, rank, error):
        self._last = rank, error

    def report(self, error) -> int:
        """Print an error, each line after its rank as under ``torchrun``; return the exit code."""
        sys.stdout.flush()
        rank = None
        if self._last is not None and self._last[1] is error:
            rank = self._last[0]
        if isinstance(error, StartError | refused.UnsupportedError | BackendError):
            say(f"{line_of_error(error)}: {error}")
            return 1
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else 1
            text = "" if isinstance(error.code, int) else f"{error.code}\n"
        else:
            code, text = 1, self._format(error)
        prefix = "" if rank is None else f"[rank{rank}]: "
        sys.stderr.writelines(f"{prefix}{line}\n" for line in text.splitlines())
        where = "" if rank is None else f" on rank {rank}"
        say(f"{self._script.name} failed{where} (exit code {code})")
        return code

    def _format(self, error):
        """Return the traceback without the launcher's own frames."""
        step = error.__traceback__
        while step is not None and step.tb_frame.f_code.co_filename != self._script.path:
            step = step.tb_next
        text = "".join(traceback.format_exception(type(error), error, step))
        return text + refused.hint(error)


def describe_left(left, world_size) -> str:
    """Return a sentence on ranks that left by ``exit()``, each with its line."""
    lines = " and ".join(sorted({line for line in left.values() if line}))
    return f"{len(left)} of {count(world_size, 'rank')} left by exit()" + (lines and f" in {lines}")


def say(text) -> None:
    """Print what the launcher says, beside the output of the script."""
    print(f"simgpu run: {text}", file=sys.stderr)

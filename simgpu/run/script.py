"""Run a script as ``__main__`` on every rank, and report which rank failed."""

import os
import random
import sys
import traceback
import types
from importlib.machinery import SourceFileLoader
from pathlib import Path

import numpy as np
import torch

import simgpu as sim
from simgpu.ranks.process.scheduler import Stopped
from simgpu.ranks.process.user_frame import line_of_error
from simgpu.ranks.pytorch.patches import BackendError
from simgpu.run.cuda.refused import UnsupportedError


class Script:
    """A script and its arguments.

    Parameters
    ----------
    path : str
        The file.
    args : list of str
        The rest of ``sys.argv``.

    Raises
    ------
    OSError
        If the file cannot be read.
    """

    def __init__(self, path, args):
        self._path, self._args = path, list(args)
        self._source = Path(path).read_bytes()
        self._failed = None  # the rank that failed (in the last run, if several), and its error

    def run(self, cluster, **options) -> int:
        """Run the script on the ranks of a cluster; print errors; return the exit code.

        Parameters
        ----------
        cluster : Cluster
            Has one GPU for each rank.
        **options
            Options of `simgpu.spawn`.
        """
        try:
            code = compile(self._source, self._path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            traceback.print_exception(type(error), error, None)
            return 1
        if not getattr(sys.flags, "safe_path", False):
            sys.path[0] = os.path.dirname(os.path.realpath(self._path))
        try:
            sim.spawn(
                self._run_one, (code,), cluster.world_size, cluster.gpu, cluster.link,
                cluster.nodes, cluster.network, **options,
            )  # fmt: skip
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return self._report(error)
        return 0

    def _run_one(self, rank, code):
        module = types.ModuleType("__main__")
        vars(module).update(
            __file__=self._path, __cached__=None, __builtins__=__builtins__,
            __loader__=SourceFileLoader("__main__", self._path),
        )  # fmt: skip
        sys.modules["__main__"], sys.argv = module, [self._path, *self._args]
        _seed(rank)
        try:
            exec(code, vars(module))
        except Stopped:
            raise
        except SystemExit as error:
            if error.code not in (None, 0):
                self._record_failure(rank, error)
                raise
        except BaseException as error:
            self._record_failure(rank, error)
            raise

    def _record_failure(self, rank, error):
        self._failed = rank, error

    def _report(self, error):
        """Print an error, each line after its rank as under ``torchrun``; return the exit code."""
        sys.stdout.flush()
        rank = None
        if self._failed is not None and self._failed[1] is error:
            rank = self._failed[0]
        if isinstance(error, UnsupportedError | BackendError):
            _print(f"{line_of_error(error)}: {error}")
            return 1
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else 1
            text = "" if isinstance(error.code, int) else f"{error.code}\n"
        else:
            code, text = 1, self._format(error)
        prefix = "" if rank is None else f"[rank{rank}]: "
        sys.stderr.writelines(f"{prefix}{line}\n" for line in text.splitlines())
        where = "" if rank is None else f" on rank {rank}"
        _print(f"{Path(self._path).name} failed{where} (exit code {code})")
        return code

    def _format(self, error):
        """Return the traceback without the launcher's own frames."""
        step = error.__traceback__
        while step is not None and step.tb_frame.f_code.co_filename != self._path:
            step = step.tb_next
        return "".join(traceback.format_exception(type(error), error, step))


def _seed(rank):
    """Seed the host's generators by rank: different numbers on each, the same in every run.

    Device generators start from the same seed on all ranks, as CUDA's do.
    """
    torch.default_generator.manual_seed(rank)
    random.seed(rank)
    np.random.seed(rank)  # noqa: NPY002 (what scripts use)


def _print(text):
    print(f"simgpu run: {text}", file=sys.stderr)

"""Running a script as every rank's ``__main__``, and saying what failed on which rank."""

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
from simgpu.run.cuda import CudaError, lines_with_cuda


class Script:
    """A script and its arguments.

    Parameters
    ----------
    path : str
        The file.
    args : list of str
        What ``sys.argv`` has besides it.

    Raises
    ------
    OSError
        If it cannot be read.
    """

    def __init__(self, path, args):
        self._path, self._args = path, list(args)
        self._source = Path(path).read_bytes()
        self._failed = None  # the first rank that failed, and its error

    def run(self, cluster, **options) -> int:
        """Run it on the ranks of a cluster; print what fails; return the exit code.

        Parameters
        ----------
        cluster : Cluster
            With a GPU for each rank.
        **options
            Of `simgpu.spawn`.
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
                self._note(rank, error)
                raise
        except BaseException as error:
            self._note(rank, error)
            raise

    def _note(self, rank, error):
        if self._failed is None:
            self._failed = rank, error

    def _report(self, error):
        """Print an error as ``torchrun`` does: with the rank before every line."""
        sys.stdout.flush()
        rank = None
        if self._failed is not None and self._failed[1] is error:
            rank = self._failed[0]
        if isinstance(error, CudaError | BackendError):
            line = line_of_error(error)
            others = ", ".join(other for other in lines_with_cuda(self._path) if other != line)
            _print(f"{line}: {error}" + (f". Look at {others}, too" if others else ""))
            return 1
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else 1
            text = "" if isinstance(error.code, int) else f"{error.code}\n"
        else:
            code, text = 1, self._describe(error)
        mark = "" if rank is None else f"[rank{rank}]: "
        sys.stderr.writelines(f"{mark}{line}\n" for line in text.splitlines())
        where = "" if rank is None else f" on rank {rank}"
        _print(f"{Path(self._path).name} failed{where} (exit code {code})")
        return code

    def _describe(self, error):
        """Return the traceback from the script's first line on."""
        step = error.__traceback__
        while step is not None and step.tb_frame.f_code.co_filename != self._path:
            step = step.tb_next
        return "".join(traceback.format_exception(type(error), error, step))


def _seed(rank):
    """Let ranks that seed nothing draw different numbers, as processes do; the same in every run.

    Generators of devices begin with one seed everywhere, as CUDA's do.
    """
    torch.default_generator.manual_seed(rank)
    random.seed(rank)
    np.random.seed(rank)  # noqa: NPY002 (what scripts use)


def _print(text):
    print(f"simgpu run: {text}", file=sys.stderr)

"""Run a script once, as ``simgpu run`` does, and watch it."""

import contextlib
import io
import itertools
import os
import time
from collections import Counter

from simgpu.backend import unwritten
from simgpu.check.watch.observer import Observer
from simgpu.clock.current import state
from simgpu.run import options
from simgpu.run.cuda.spelling import cuda_spelling, mentions_cuda
from simgpu.run.faults import NONE
from simgpu.run.processes import Driver
from simgpu.run.script import Script
from simgpu.run.simulated_time import SimulatedTime
from simgpu.run.steps import Steps
from simgpu.run.torchrun import Torchrun

_RUNS = itertools.count()


class Job:
    """One run of a script.

    Parameters
    ----------
    args : argparse.Namespace
        Options of ``simgpu run``.
    show : bool
        Whether what the script prints is shown.

    Attributes
    ----------
    script : Script
    steps : Steps
        Those of the last run.
    cluster : Cluster
        What is simulated.

    Raises
    ------
    OSError, ValueError, SyntaxError
        If the script cannot be read, or the options do not fit together.
    """

    def __init__(self, args, show=False):
        self._args, self._show = args, show
        self.script = Script(args.script, args.args, args.module)
        self.script.compile()
        start = Driver if options.starts_itself(args, self.script) else Torchrun
        self._job, self.steps = start(self.script, args, NONE), None

    @property
    def cluster(self):
        """The hardware it runs on."""
        return self._job.cluster

    def steps_made(self) -> tuple:
        """Return how many steps have been made in the present run, and of how many if known."""
        return self.steps.made_by(0) if self.steps else 0, self._args.steps

    def run(self, reverse=False, watch=True, since=None):
        """Run the script; return what was observed.

        Parameters
        ----------
        reverse : bool, default False
            Whether batches have their examples in reverse order.
        watch : bool, default True
            Whether steps are observed.
        since : float, optional
            When the first run of the check began, in seconds since the epoch.

        Returns
        -------
        RunRecord or None
            None if the examples were to be reversed and no loader let them be.
        """
        self._args.master_port = _next_port(self._args.master_port)
        self.script.add_folder()
        self.steps, observer = Steps(self._args.steps), Observer(reverse, since, time.time())
        printed = io.StringIO()
        with (
            cuda_spelling(mentions_cuda(self.script.path), lambda text: None, self._args.eager),
            SimulatedTime(not self._args.wall_clock) as clock,
            observer if watch else contextlib.nullcontext(),  # before Steps, which ends the ranks
            self.steps,
            unwritten.watching() as seen,
            _hidden(printed, self._show),
        ):
            code = self._job.run(0, clock, self.steps)
        record = observer.record
        record.code, record.error, record.text = code, self._job.error, printed.getvalue()
        record.unwritten = seen.texts
        if state.machine is not None:
            record.flops = sum((device.flops for device in state.machine.devices), Counter())
        return None if reverse and not observer.examples.reversed else record


def _next_port(given):
    """Return another port for each run, since an earlier one may have left a socket open."""
    return str(int(given) + next(_RUNS)) if given.isdecimal() else given


@contextlib.contextmanager
def _hidden(printed, show):
    """Keep what the script and the launcher print on stderr, and hide what is printed on stdout."""
    if show:
        yield
        return
    with (
        open(os.devnull, "w", encoding="utf-8") as nothing,
        contextlib.redirect_stdout(nothing),
        contextlib.redirect_stderr(printed),
    ):
        yield

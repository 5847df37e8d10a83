"""Scripts that start their ranks themselves: by `torch.multiprocessing.spawn`, or as ``Process``.

Such a script runs once, as on real GPUs, and sees the GPUs of one node. What it starts becomes the
ranks of `simgpu.spawn`: those of one call of ``spawn``, or all processes that were started before
the script first waits for one, in ``join()`` or for what comes from a queue, a pipe or an event.
They have run when ``spawn`` returns, even with ``join=False``.

What a rank gets of its starter's is in ``calls.py``.
"""

import functools
import multiprocessing
import os

import simgpu as sim
from simgpu.backend.pytorch.replacements import Replacements, find
from simgpu.clock import current
from simgpu.clock.current import state
from simgpu.network.cluster import cluster_from_specs
from simgpu.ranks.process.rank_local_state import RankLocalState
from simgpu.ranks.process.torch_internals import C10D
from simgpu.ranks.run_ranks import run_ranks
from simgpu.run.calls import ProcessCall
from simgpu.run.cuda import current_device
from simgpu.run.failures import Failures, StartError
from simgpu.run.options import node_of
from simgpu.run.script import seed
from simgpu.user_frame import is_user_code

_SPAWN = ("torch.multiprocessing:spawn", "torch.multiprocessing.spawn:spawn")
_START = tuple(f"torch.multiprocessing{m}:start_processes" for m in ("", ".spawn"))
_INIT = ("torch.distributed:init_process_group", f"{C10D}:init_process_group")
_PROCESS = "multiprocessing.process:BaseProcess"
_WAITS = (  # for another process
    *(f"multiprocessing.queues:{name}" for name in ("Queue.get", "Queue.empty", "SimpleQueue.get")),
    *(f"multiprocessing.connection:_ConnectionBase.{name}" for name in ("recv", "poll")),
    *(f"multiprocessing.synchronize:{name}.wait" for name in ("Event", "Condition")),
    "multiprocessing.connection:wait",
)
_OF_RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK")
_OF_RANKS += ("MASTER_ADDR", "MASTER_PORT")


def refused() -> Replacements:
    """Refuse to start ranks in a rank, until the replacements are closed."""

    def refuse(*args, **kwargs):
        raise StartError(
            "mp.spawn in a rank: this script was started on every rank, as by torchrun; leave "
            "--nproc-per-node out and give --gpus-per-node K, and it runs once and starts its ranks"
        )

    replacements = Replacements()
    replacements.add(dict.fromkeys((*_SPAWN, *_START), refuse))
    return replacements


class Driver:
    """Runs a script once, and what it starts as ranks.

    Parameters
    ----------
    script, args, faults
        As for `Torchrun`.

    Attributes
    ----------
    cluster : Cluster
        What is simulated: after ``spawn``, as many GPUs as there are ranks.
    notes : tuple of str
        Nothing; what a job of `Torchrun` says in the summary.
    error : BaseException or None
        Why the run has failed.

    Raises
    ------
    ValueError
        If the options do not fit together.
    """

    notes = ()

    def __init__(self, script, args, faults):
        self._script, self._faults, self.error = script, faults, None
        self.cluster = self._node = node_of(args)
        self.left = {}  # as of `Torchrun`
        self._values = {"numerics": not args.shapes_only, "routing": args.routing}
        self._waiting = []  # processes that were started and become ranks, and their calls
        self._ended = set()

    def run(self, restart, time, steps) -> int:
        """Run the script once; print errors; return the exit code.

        Parameters
        ----------
        restart : int
            0: only ``torchrun`` starts a script again.
        time : SimulatedTime
        steps : Steps
        """
        self._failures, self._time, self._steps = Failures(self._script), time, steps
        self.left = self._failures.left
        node, process = self.cluster, RankLocalState()
        sim.configure(node.gpus_per_node, node.gpu, node.link, **self._values)
        process.save()
        try:
            with Replacements() as scoped:
                scoped.add(self._replacements())
                time.begin_rank()
                self._execute()
                self._run_waiting()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.error = error
            return self._failures.report(error)
        finally:
            process.restore()
        return 0

    def _execute(self):
        try:
            self._script.execute()
        except SystemExit as error:  # Python still waits for processes that have been started
            if error.code not in (None, 0):
                raise

    def _replacements(self):
        process = find(_PROCESS)
        return {
            **dict.fromkeys(_INIT, self._in_a_rank(find(_INIT[0]))),
            **dict.fromkeys(_SPAWN, self._spawn),
            **dict.fromkeys(_START, self._start_processes),
            f"{_PROCESS}.start": self._start(process.start),
            f"{_PROCESS}.join": self._join(process.join),
            f"{_PROCESS}.is_alive": self._is_alive(process.is_alive),
            **{name: self._wait(find(name)) for name in _WAITS},
            f"{_PROCESS}.exitcode": property(self._exitcode(process.exitcode.fget)),
        }

    def _in_a_rank(self, init):
        """Refuse to let the script itself, which is not a rank, join the ranks."""

        @functools.wraps(init)
        def checked(*args, **kwargs):
            if current.ranks is None:
                raise StartError(
                    "init_process_group outside of the processes that this script starts; give "
                    "--nproc-per-node 1, or more, to run the whole script on every rank"
                )
            return init(*args, **kwargs)

        return checked

    def _spawn(self, fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
        return self._start_processes(fn, args, nprocs, join, daemon, start_method)

    def _start_processes(
        self, fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"
    ):
        calls = [
            ProcessCall(fn, (rank, *args), {}, start_method, "mp.spawn") for rank in range(nprocs)
        ]
        self._run(calls, f"mp.spawn(nprocs={nprocs})")
        return None if join else Context()

    def _start(self, real):
        def start(process):
            if not self._becomes_rank(process):
                real(process)
                return
            method = getattr(process, "_start_method", None) or multiprocessing.get_start_method()
            what = process._target, process._args, process._kwargs
            self._waiting.append((process, ProcessCall(*what, method, "Process")))

        return start

    def _becomes_rank(self, process):
        """Return whether a process runs a function of the script, not of a library."""
        target = getattr(process._target, "func", process._target)  # of a partial
        file = getattr(getattr(target, "__code__", None), "co_filename", "")
        its_own = bool(file) and is_user_code(file) and "site-packages" not in file
        return current.ranks is None and its_own

    def _join(self, real):
        def join(process, timeout=None):
            return None if self._has_run(process) else real(process, timeout)

        return join

    def _wait(self, real):
        """Run processes that were started before the script waits for what they send."""

        @functools.wraps(real)
        def wait(*args, **kwargs):
            if current.ranks is None:
                self._run_waiting()
            return real(*args, **kwargs)

        return wait

    def _is_alive(self, real):
        return lambda process: False if self._has_run(process) else real(process)

    def _exitcode(self, real):
        return lambda process: 0 if self._has_run(process) else real(process)

    def _has_run(self, process):
        """Return whether it was a rank; if it waits to become one, it runs now, with the others."""
        if any(waiting is process for waiting, _ in self._waiting):
            self._run_waiting()
        return process in self._ended

    def _run_waiting(self):
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._ended.update(process for process, _ in waiting)
            self._run([call for _, call in waiting], f"{len(waiting)} times Process.start()")

    def _run(self, calls, what):
        """Run one call on each rank."""
        if current.ranks is not None:
            raise StartError(f"{what} in a rank: ranks cannot start ranks")
        if len(calls) > self._node.gpus_per_node:
            raise StartError(
                f"{what} starts more ranks than the node has GPUs, {self._node.gpus_per_node}; "
                f"give --gpus-per-node {len(calls)}"
            )
        self._time.begin_run()
        self._steps.clear()
        if state.machine is not None:  # of the script: its ranks have their own GPUs
            state.machine.alive, state.machine = False, None
        self._environment = {name: os.environ[name] for name in _OF_RANKS if name in os.environ}
        self.cluster = cluster_from_specs(len(calls), self._node.gpu, self._node.link)
        self._faults.check(len(calls))
        run_ranks(self._run_one, (calls,), self.cluster, slow=self._faults.slow, **self._values)

    def _run_one(self, rank, calls):
        self._time.begin_rank()
        for name in _OF_RANKS:  # sim.spawn sets them, as torchrun does; here the script does
            os.environ.pop(name, None)
        os.environ.update(self._environment)
        seed(rank)
        with self._failures.recorded(rank):
            calls[rank].run(self._script)
            current_device.check_end()


class Context:
    """What ``mp.spawn(..., join=False)`` returns; its processes have run."""

    processes = ()

    def join(self, timeout=None, grace_period=None) -> bool:
        """Return True: all processes have ended, without an error."""
        return True

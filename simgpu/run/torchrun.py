"""Start the ranks of a script as ``torchrun`` does: each runs it from its first line."""

import os
import sys

from simgpu.clock import current
from simgpu.ranks.representatives import RanksDifferError
from simgpu.ranks.run_ranks import run_ranks
from simgpu.run import processes
from simgpu.run.cuda import current_device
from simgpu.run.failures import Failures, say
from simgpu.run.faults import EXIT_CODE, Killing
from simgpu.run.options import cluster_of, numbers, spawn_options
from simgpu.run.script import seed


class Torchrun:
    """Runs a script on all ranks of a cluster.

    Parameters
    ----------
    script : Script
    args : argparse.Namespace
        The options.
    faults : Faults

    Attributes
    ----------
    cluster : Cluster
        What is simulated.
    notes : list of str
        What the summary should say of the last run.
    error : BaseException or None
        Why the last run has failed.

    Raises
    ------
    ValueError
        If the options do not fit together.
    """

    def __init__(self, script, args, faults):
        self._script, self._faults, self._args = script, faults, args
        self.cluster, self.notes, self.error = cluster_of(args), [], None
        self._options = spawn_options(args, self.cluster)
        faults.check(self.cluster.world_size)
        self.cluster.with_slow_cards(faults.cards)
        for name in ("kill", "slow", "slow_card"):
            if getattr(args, name) and args.ranks:
                option = name.replace("_", "-")
                raise ValueError(f"--{option}: needs all ranks; leave --ranks out")
        shown = args.local_ranks_filter
        self._shown = None if shown is None else numbers("--local-ranks-filter", shown)
        self.left = {}  # rank -> the line where it left by exit()
        self._killed = False  # --kill kills a rank once, and not again after a restart

    def run(self, restart, time, steps) -> int:
        """Run the script once; print errors; return the exit code.

        Parameters
        ----------
        restart : int
            How many runs have failed before.
        time : SimulatedTime
        steps : Steps
        """
        failures = Failures(self._script)
        self.left = failures.left
        time.begin_run()
        steps.clear()
        failed = None
        with processes.refused(), Killing(self._faults, enabled=not self._killed) as killing:
            try:
                run_ranks(
                    self._run_one, (restart, time, failures), self.cluster, **self._options,
                    slow=self._faults.slow, slow_cards=self._faults.cards,
                )  # fmt: skip
            except KeyboardInterrupt:
                raise
            except RanksDifferError as error:
                self.notes.append(f"{error}. The numbers are those of the ranks that ran")
            except BaseException as error:
                if not killing.done:
                    self.error = error
                    return failures.report(error)
                failed = error
        if killing.done:
            self._killed = True
            say(killing.describe(failed))
            return EXIT_CODE
        return 0

    def _run_one(self, rank, restart, time, failures):
        time.begin_rank()
        self._set_environment(rank, restart)
        seed(rank)
        with open(os.devnull, "w") as nothing, failures.recorded(rank):
            hidden = self._shown is not None and self.cluster.local(rank) not in self._shown
            if hidden or current.ranks.checks:
                sys.stdout = sys.stderr = nothing  # those of this rank
            self._script.execute()
            current_device.check_end()

    def _set_environment(self, rank, restart):
        """Set what ``torchrun`` sets besides the variables of `simgpu.spawn`."""
        args, world_size = self._args, str(self.cluster.world_size)
        os.environ.update(
            MASTER_ADDR=args.master_addr, MASTER_PORT=args.master_port, ROLE_NAME=args.role,
            ROLE_RANK=str(rank), ROLE_WORLD_SIZE=world_size,
            GROUP_WORLD_SIZE=str(self.cluster.nodes), TORCHELASTIC_RUN_ID=args.rdzv_id,
            TORCHELASTIC_RESTART_COUNT=str(restart),
            TORCHELASTIC_MAX_RESTARTS=str(args.max_restarts),
        )  # fmt: skip

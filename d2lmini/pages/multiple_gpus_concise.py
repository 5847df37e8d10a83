"""The chapter on DDP: scripts that are started or made to hang, and messages."""

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import simgpu as sim
from d2lmini.ddp import launcher_environment, torchrun_command
from simgpu.timeline import Timeline

_STUCK = r'\[rank(\d)\]:   File ".*changed.py", line (\d+), in <module>\n.*?: +(.*)'
_REASON = r"\[rank(\d)\]: RuntimeError: \[.*?\] (.*)"


def run_script(script, nprocs, *options, simulated=False):
    """Start a script by torchrun on CPU processes, or on simulated GPUs.

    Parameters
    ----------
    script : str or Path
    nprocs : int
    *options
        Of the script; processes on the CPU are also given ``--cpu``.
    simulated : bool
        Start ``simgpu run`` instead of torchrun.

    Returns
    -------
    code : int
        The exit status: 0 if all went well.
    text : str
        What the processes print, errors included.
    """
    command = torchrun_command(script, "--cpu", *options, nproc_per_node=nprocs)
    if simulated:
        launcher = [sys.executable, "-m", "simgpu", "run"]
        command = [*launcher, f"--nproc-per-node={nprocs}", str(script), *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(command, env=launcher_environment(), timeout=300, **pipes)
    return done.returncode, done.stdout


def run_changed(source, nprocs, timeout=10):
    """Start a changed script on CPU processes, with a short time-out for collectives.

    Parameters
    ----------
    source : str
        The script. One of its lines calls ``dist.init_process_group`` with a backend.
    nprocs : int
    timeout : int
        Seconds after which a rank that waits gives up.

    Returns
    -------
    code, text : int, str
        As `run_script` returns them.
    """
    limit = f", timeout=__import__('datetime').timedelta(seconds={timeout}))"  # adds no line
    source, count = re.subn(r"(?m)(dist\.init_process_group\(.*)\)", rf"\1{limit}", source)
    if count != 1:
        raise ValueError(
            f"the script has {count} calls of dist.init_process_group, but must have 1"
        )
    with TemporaryDirectory() as folder:
        file = Path(folder) / "changed.py"
        file.write_text(source, encoding="utf-8")
        return run_script(file, nprocs)


def waiting_ranks(text):
    """Return (rank, line number, line, reason) of each rank that gave up in a changed script."""
    reasons = dict(re.findall(_REASON, text))
    return [
        (int(rank), int(number), call, reasons[rank].split(" [")[0])
        for rank, number, call in sorted(re.findall(_STUCK, text))
        if rank in reasons
    ]


def losses_in(text):
    """Return the losses and the accuracies in what a script has printed."""
    found = re.findall(r"loss (\S+), accuracy (\S+)", text)
    return torch.tensor([[float(number) for number in pair] for pair in found])


def allreduces_sent():
    """Return how many all-reduces rank 0 took part in during the last run of simulated ranks."""
    lane = Timeline(sim.trace()).lanes().get(("rank 0 sim:0", "comm"), [])
    return sum(message.name == "all_reduce" for message in lane)

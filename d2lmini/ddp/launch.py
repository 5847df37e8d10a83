"""Start a script as a job of several processes, from a notebook, a test or a benchmark."""

import json
import os
import subprocess
import sys


def torchrun_command(
    script, *args, nproc_per_node=1, nnodes=1, endpoint=None, max_restarts=0, python=sys.executable
):
    """Return the command line that starts `script` under torchrun.

    ``python -m torch.distributed.run`` is what the command ``torchrun`` does, with the certainty
    that it is this Python's.

    Parameters
    ----------
    script : str or Path
        File of the program. Not a function: a worker is a fresh interpreter, which can import a
        file but not a function that was typed into a cell.
    *args
        The program's arguments.
    nproc_per_node : int
        Processes on each machine; one per GPU, as a rule.
    nnodes : int
        Machines. With more than one, the command is run on each of them.
    endpoint : str, optional
        ``host:port`` at which the machines meet; needed if there are several.
    max_restarts : int
        How often a job is started again after one of its processes died.
    python : str
        The interpreter; default: this one.

    Returns
    -------
    list of str

    Raises
    ------
    ValueError
        If `script` is a function, or several machines have no `endpoint`.

    Examples
    --------
    >>> print(*torchrun_command("train.py", "--lr", 0.1, nproc_per_node=2, python="python"))
    python -m torch.distributed.run --nproc-per-node 2 --standalone train.py --lr 0.1
    """
    if callable(script):
        raise ValueError(
            f"{script.__name__} is a function, which a worker process cannot import from a "
            "notebook: write it to a file and give the file's path"
        )
    command = [python, "-m", "torch.distributed.run", "--nproc-per-node", nproc_per_node]
    if nnodes == 1:
        command += ["--standalone"]  # finds a free port
    elif endpoint is None:
        raise ValueError(f"{nnodes} machines need an endpoint such as 'first-machine:29400'")
    else:
        command += ["--nnodes", nnodes, "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint]
    if max_restarts:
        command += ["--max-restarts", max_restarts]
    return [str(part) for part in [*command, script, *args]]


def launcher_environment(threads=1):
    """Return the variables that the launcher should be started with.

    Parameters
    ----------
    threads : int
        CPU threads of each process. More than cores / processes make all slower.

    Returns
    -------
    dict of str to str
        This process's own, and the two that matter.
    """
    return os.environ | {
        "OMP_NUM_THREADS": str(threads),
        # Otherwise restarted processes meet at the store of the first start, find the addresses
        # of dead processes there, and wait for these (PyTorch issue 135712).
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }


def launch(script, *args, nproc_per_node=1, threads=1, timeout=None, **options):
    """Run a script under torchrun and return the records that it printed.

    A fresh interpreter for every process (nothing is forked): it does not matter whether this
    one has used a GPU already.

    Parameters
    ----------
    script, *args, nproc_per_node, **options
        See `torchrun_command`.
    threads : int
        CPU threads of each process, default 1.
    timeout : float, optional
        Seconds after which the job is ended.

    Returns
    -------
    list of dict
        The lines of standard output, each a JSON object.

    Raises
    ------
    RuntimeError
        If the job fails, with the end of what it wrote to standard error.
    """
    command = torchrun_command(script, *args, nproc_per_node=nproc_per_node, **options)
    env = launcher_environment(threads)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        end = "\n".join(done.stderr.splitlines()[-40:])
        raise RuntimeError(f"{' '.join(command)}\nended with code {done.returncode}:\n{end}")
    return [json.loads(line) for line in done.stdout.splitlines()]

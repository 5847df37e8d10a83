"""Start a script as a job of several processes, from a notebook, a test or a benchmark."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from d2lmini.ddp.records import FILE_VARIABLE, read_records

# Otherwise restarted processes meet at the store of the first start, find the addresses of dead
# processes there, and wait for these (PyTorch issue 135712).
OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}

LOOPBACK_INTERFACE = {"linux": "lo", "darwin": "lo0"}

# What the launcher takes at most to end its processes: it kills those that do not obey for 30 s.
SECONDS_TO_END = 40

REMEDIES = {
    "built without libuv": "PyTorch for Windows has no libuv, which its launcher needs: use WSL"
}


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
    endpoint : str or Path, optional
        ``host:port`` at which the machines meet; needed if there are several. With one machine,
        the path of a file that is not there yet: while a job runs, the launcher's usual port
        accepts connections from other machines, too, a file does not.
    max_restarts : int
        How often a job is started again after one of its processes died.
    python : str
        The interpreter; default: this one.

    Returns
    -------
    list of str
        Complete: it can be printed and typed, on Linux and macOS also with `max_restarts`.

    Raises
    ------
    ValueError
        If `script` is a function, or several machines have no `endpoint`.

    Examples
    --------
    >>> print(*torchrun_command("train.py", nproc_per_node=2, python="python"))
    python -m torch.distributed.run --nproc-per-node 2 --standalone --local-addr 127.0.0.1 train.py
    """
    if callable(script):
        raise ValueError(
            f"{script.__name__} is a function, which a worker process cannot import from a "
            "notebook: write it to a file and give the file's path"
        )
    command = [python, "-m", "torch.distributed.run", "--nproc-per-node", nproc_per_node]
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint]
    if nnodes > 1:
        if endpoint is None:
            raise ValueError(f"{nnodes} machines need an endpoint such as 'first-machine:29400'")
        command += ["--nnodes", nnodes, *meeting]
    elif endpoint is None:
        # A free port; and no name of the machine, which not every machine can resolve.
        command += ["--standalone", "--local-addr", "127.0.0.1"]
    else:
        command += [*meeting, "--rdzv-conf", "store_type=file", "--local-addr", "127.0.0.1"]
    if max_restarts:
        command += ["--max-restarts", max_restarts]
        if sys.platform != "win32":  # Windows has no such program
            command[:0] = ["env", *(f"{name}={value}" for name, value in OWN_STORE.items())]
    return [str(part) for part in [*command, script, *args]]


def launcher_environment(threads=1, nnodes=1):
    """Return the variables that the launcher should be started with.

    Parameters
    ----------
    threads : int
        CPU threads of each process. More than cores / processes make all slower.
    nnodes : int
        Machines. With one, gloo's messages stay inside it, unless GLOO_SOCKET_IFNAME is set.

    Returns
    -------
    dict of str to str
        This process's own, and those that matter.
    """
    inside = {}
    if nnodes == 1 and sys.platform in LOOPBACK_INTERFACE:
        inside = {"GLOO_SOCKET_IFNAME": LOOPBACK_INTERFACE[sys.platform]}
    return inside | os.environ | {"OMP_NUM_THREADS": str(threads)} | OWN_STORE


def launch(script, *args, nproc_per_node=1, threads=1, timeout=None, nnodes=1, **options):
    """Run a script under torchrun and return the records of rank 0.

    A fresh interpreter for every process (nothing is forked): it does not matter whether this
    one has used a GPU already. What the processes print is printed here, at the end; what they
    write to standard error is shown if the job fails.

    Parameters
    ----------
    script, *args, nproc_per_node, nnodes, **options
        See `torchrun_command`.
    threads : int
        CPU threads of each process, default 1.
    timeout : float, optional
        Seconds after which the job is ended.

    Returns
    -------
    list of dict
        What rank 0 gave to `Worker.report`, as far as it runs on this machine.

    Raises
    ------
    RuntimeError
        If the job fails or takes too long, with the end of what it wrote to standard error.
    """
    options |= {"nproc_per_node": nproc_per_node, "nnodes": nnodes}
    with tempfile.TemporaryDirectory() as folder:
        if nnodes == 1:  # nobody else may connect
            options.setdefault("endpoint", Path(folder) / "meeting")
        command = torchrun_command(script, *args, **options)
        path = Path(folder) / "records"
        env = launcher_environment(threads, nnodes) | {FILE_VARIABLE: str(path)}
        failure, output, errors = _run(command, env, timeout)
        records = read_records(path)
    print(output, end="")
    if failure:
        tail = "\n".join(errors.splitlines()[-100:])
        remedies = "".join(f"\n{text}" for sign, text in REMEDIES.items() if sign in errors)
        raise RuntimeError(f"{' '.join(command)}\n{failure}:\n{tail}{remedies}")
    return records


def _run(command, env, timeout):
    """Return how a command failed, if it did, and what it wrote to standard output and error."""
    how = {"text": True, "encoding": "utf-8", "errors": "replace"}
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how
    ) as job:
        try:
            output = job.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            return f"did not end within {timeout:g} s", *_end(job)
        except BaseException:  # the reader does not want to wait any more
            _end(job)
            raise
    return f"ended with code {job.returncode}" if job.returncode else None, *output


def _end(job):
    """End a launcher such that it can end its processes; return what they wrote."""
    job.terminate()
    try:
        return job.communicate(timeout=SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        job.kill()
        return job.communicate()

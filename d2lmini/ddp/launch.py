"""Start a script as a job of several processes, from a notebook, a test or a benchmark."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from d2lmini.ddp.records import FILE_VARIABLE, read_records

# Otherwise restarted processes use the store of the first start, find the addresses of dead
# processes there, and wait for them (PyTorch issue 135712).
OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}

LOOPBACK_INTERFACE = {"linux": "lo", "darwin": "lo0"}

# The launcher needs at most this long to end its processes: after 30 s it kills them.
SECONDS_TO_END = 40

REMEDIES = {
    "built without libuv": "PyTorch for Windows has no libuv, which its launcher needs: use WSL"
}


def torchrun_command(
    script, *args, nproc_per_node=1, nnodes=1, endpoint=None, max_restarts=0, python=sys.executable
):
    """Return the command line that starts `script` under torchrun.

    ``python -m torch.distributed.run`` is the same as ``torchrun``, and certain to use this Python.

    Parameters
    ----------
    script : str or Path
        File of the program. It cannot be a function: a worker is a new interpreter, which can run
        a file, but cannot import a function from a notebook.
    *args
        The program's arguments.
    nproc_per_node : int
        Processes per machine; usually one per GPU.
    nnodes : int
        Number of machines. If more than one, run the command on each of them.
    endpoint : str or Path, optional
        ``host:port`` for the rendezvous of the machines; required if there are several. With one
        machine, the path of a file that does not exist yet: while a job runs, the launcher's
        default port accepts connections from other machines, a file does not.
    max_restarts : int
        How often the job is restarted after one of its processes died.
    python : str
        The interpreter; default: this one.

    Returns
    -------
    list of str
        The complete command; typed into a shell it works as well (with `max_restarts` only on
        Linux and macOS).

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
    rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint]
    if nnodes > 1:
        if endpoint is None:
            raise ValueError(f"{nnodes} machines need an endpoint such as 'first-machine:29400'")
        command += ["--nnodes", nnodes, *rendezvous]
    elif endpoint is None:
        # A free port, and no host name, which not every machine can resolve.
        command += ["--standalone", "--local-addr", "127.0.0.1"]
    else:
        command += [*rendezvous, "--rdzv-conf", "store_type=file", "--local-addr", "127.0.0.1"]
    if max_restarts:
        command += ["--max-restarts", max_restarts]
        if sys.platform != "win32":  # Windows has no such program
            command[:0] = ["env", *(f"{name}={value}" for name, value in OWN_STORE.items())]
    return [str(part) for part in [*command, script, *args]]


def launcher_environment(threads=1, nnodes=1):
    """Return the environment for the launcher.

    Parameters
    ----------
    threads : int
        CPU threads per process; more than cores / processes slow all of them down.
    nnodes : int
        Number of machines. With one, gloo uses the loopback interface, unless GLOO_SOCKET_IFNAME is
        set.

    Returns
    -------
    dict of str to str
        The variables of this process, updated.
    """
    inside = {}
    if nnodes == 1 and sys.platform in LOOPBACK_INTERFACE:
        inside = {"GLOO_SOCKET_IFNAME": LOOPBACK_INTERFACE[sys.platform]}
    return inside | os.environ | {"OMP_NUM_THREADS": str(threads)} | OWN_STORE


def launch(script, *args, nproc_per_node=1, threads=1, timeout=None, nnodes=1, **options):
    """Run a script under torchrun and return the records of rank 0.

    Every process is a new interpreter (nothing is forked), so it does not matter whether this one
    has used a GPU. The standard output of the processes is printed here, at the end; their standard
    error is shown if the job fails.

    Parameters
    ----------
    script, *args, nproc_per_node, nnodes, **options
        See `torchrun_command`.
    threads : int
        CPU threads per process.
    timeout : float, optional
        Seconds after which the job is terminated.

    Returns
    -------
    list of dict
        The records that rank 0 gave to `Worker.report`, if rank 0 runs on this machine.

    Raises
    ------
    RuntimeError
        If the job fails or takes too long; the message has the end of its standard error.
    """
    options |= {"nproc_per_node": nproc_per_node, "nnodes": nnodes}
    with tempfile.TemporaryDirectory() as folder:
        if nnodes == 1:  # accept no connections from other machines
            options.setdefault("endpoint", Path(folder) / "rendezvous")
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
    """Run a command; return how it failed, or None, its standard output and standard error."""
    how = {"text": True, "encoding": "utf-8", "errors": "replace"}
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how
    ) as job:
        try:
            output = job.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            return f"did not end within {timeout:g} s", *_end(job)
        except BaseException:  # such as KeyboardInterrupt
            _end(job)
            raise
    return f"ended with code {job.returncode}" if job.returncode else None, *output


def _end(job):
    """Terminate a launcher, with time to end its processes; return their output."""
    job.terminate()
    try:
        return job.communicate(timeout=SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        job.kill()
        return job.communicate()

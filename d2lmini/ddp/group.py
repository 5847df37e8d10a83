"""Meet the other processes of a job, and part from them."""

import json
import os
import socket
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from d2lmini.ddp.collect import wait_for_all_ranks

# What a launcher such as torchrun tells each process about the job.
LAUNCHER_VARIABLES = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)

# The launcher looks at its processes ten times a second. A survivor that reported its lost
# connection at once would often be taken for the one that failed first.
SECONDS_BEFORE_A_SURVIVOR_REPORTS = 3.0


@dataclass(frozen=True)
class Group:
    """One process among those of the job.

    Attributes
    ----------
    rank : int
        Number of this process, from 0 to world_size - 1.
    world_size : int
        Number of processes, over all machines.
    device : torch.device
        Where this process computes.
    backend : str
        What carries the messages: "nccl" between GPUs, "gloo" between CPUs.
    reason : str
        Why that device and backend.
    """

    rank: int
    world_size: int
    device: torch.device
    backend: str
    reason: str

    def report(self, event, **values):
        """Print a record as one line of JSON, on rank 0 only."""
        if self.rank == 0:
            print(json.dumps({"event": event, **values}), flush=True)

    def describe(self):
        """Return what is worth reporting: sizes, devices, and where each rank runs."""
        ranks = [None] * self.world_size
        dist.all_gather_object(ranks, {"host": socket.gethostname(), "pid": os.getpid()})
        about = {"world_size": self.world_size, "device": str(self.device)}
        return about | {"backend": self.backend, "reason": self.reason, "ranks": ranks}


@contextmanager
def process_group(device="auto", timeout=60.0):
    """Join the job that the launcher describes, or be a job of one process; leave it at the end.

    Parameters
    ----------
    device : {"auto", "cuda", "cpu"}
        "auto" takes GPUs if each process of this machine can have its own.
    timeout : float
        Seconds that a process waits for the others, at the start and in every collective, before
        it gives up. Default 60 s.

    Yields
    ------
    Group

    Raises
    ------
    ValueError
        If the launcher's variables are incomplete, restarts would hang, or GPUs are asked for that
        are not there.
    RuntimeError
        If the port is taken, the others do not come, or another rank is lost.

    Examples
    --------
    >>> with process_group("cpu") as group:
    ...     print(group.rank, group.world_size, group.backend)
    0 1 gloo
    """
    place = _place_in_job(os.environ)
    num_gpus = torch.cuda.device_count()
    backend, device_type, reason = choose_backend(place["LOCAL_WORLD_SIZE"], num_gpus, device)
    local_device = torch.device("cpu")
    if device_type == "cuda":
        local_device = torch.device("cuda", place["LOCAL_RANK"])
        torch.cuda.set_device(local_device)  # before any collective: NCCL uses the current one
    _join(place, backend, local_device, timeout)
    group = Group(place["RANK"], place["WORLD_SIZE"], local_device, backend, reason)
    try:
        yield group
        wait_for_all_ranks()  # rank 0 may hold the store that the others still talk to
    except BaseException as error:
        if backend == "gloo":  # NCCL would wait here for ranks that do not answer any more
            dist.destroy_process_group()
        if not _lost_contact(error):
            raise
        time.sleep(SECONDS_BEFORE_A_SURVIVOR_REPORTS)
        raise RuntimeError(
            f"rank {group.rank} lost contact with another rank, which died or stopped answering. "
            "The launcher's report names the rank that failed; start again with --resume."
        ) from error
    dist.destroy_process_group()


def choose_backend(local_world_size, num_gpus, device="auto"):
    """Choose what computes and what carries the messages.

    Parameters
    ----------
    local_world_size : int
        Processes on this machine.
    num_gpus : int
        GPUs that PyTorch sees on this machine.
    device : {"auto", "cuda", "cpu"}
        What was asked for.

    Returns
    -------
    backend, device_type, reason : str

    Raises
    ------
    ValueError
        If `device` is "cuda" and there are fewer GPUs than processes.

    Examples
    --------
    >>> choose_backend(local_world_size=2, num_gpus=1)
    ('gloo', 'cpu', '2 processes but 1 GPU on this machine: NCCL needs one GPU per process')
    """
    if device not in ("auto", "cuda", "cpu"):
        raise ValueError(f"device is {device!r}; choose 'auto', 'cuda' or 'cpu'")
    if device == "cpu":
        return "gloo", "cpu", "the CPU was asked for"
    counts = f"{_count(local_world_size, 'process', 'es')} {{}} {_count(num_gpus, 'GPU')}"
    if num_gpus >= local_world_size:
        return "nccl", "cuda", counts.format("and") + " on this machine: each has its own"
    if device == "cuda":
        raise ValueError(
            counts.format("but") + " on this machine: lower --nproc-per-node or take --device cpu"
        )
    if num_gpus == 0:
        return "gloo", "cpu", "this machine has no GPU"
    reason = counts.format("but") + " on this machine: NCCL needs one GPU per process"
    return "gloo", "cpu", reason


def _count(number, noun, plural="s"):
    return f"{number} {noun}{plural if number != 1 else ''}"


def _place_in_job(environ):
    """Return the launcher's variables, numbers as int; those of a job of one if there are none."""
    found = [name for name in LAUNCHER_VARIABLES if name in environ]
    if not {"RANK", "WORLD_SIZE"} & set(found):
        alone = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}
        return alone | {"MASTER_ADDR": None, "MASTER_PORT": None}
    missing = [name for name in LAUNCHER_VARIABLES if name not in found]
    if missing:
        raise ValueError(
            f"{', '.join(found)} are set, but not {', '.join(missing)}: start the script with "
            "python -m torch.distributed.run, which sets them all, or without any launcher"
        )
    may_restart = int(environ.get("TORCHELASTIC_MAX_RESTARTS", 0)) > 0
    if may_restart and environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        raise ValueError(
            "--max-restarts needs TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in the environment of the "
            "launcher, and --standalone or --rdzv-backend c10d: without them, restarted processes "
            "may wait for dead ones at the old store"
        )
    place = {name: int(environ[name]) for name in LAUNCHER_VARIABLES if name != "MASTER_ADDR"}
    return place | {"MASTER_ADDR": environ["MASTER_ADDR"]}


def _join(place, backend, device, timeout):
    options = {"backend": backend, "timeout": timedelta(seconds=timeout)}
    if device.type == "cuda":
        options["device_id"] = device
    if place["MASTER_ADDR"] is None:
        # A store in memory: a job of one process needs no port.
        dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1, **options)
        return
    address = f"{place['MASTER_ADDR']}:{place['MASTER_PORT']}"
    try:
        dist.init_process_group(**options)
    except (dist.DistNetworkError, dist.DistStoreError) as error:
        if "EADDRINUSE" in str(error):
            raise RuntimeError(
                f"port {place['MASTER_PORT']} is taken by another program: set MASTER_PORT to a "
                "free one, or let the launcher find one with --standalone"
            ) from error
        raise RuntimeError(
            f"rank {place['RANK']} of {place['WORLD_SIZE']} could not meet the others at "
            f"{address} within {timeout:g} s: check that every machine was started with the same "
            "address, and that none reports an error of its own"
        ) from error


def _lost_contact(error):
    """Tell an error of the connection between ranks from one of this rank's own program."""
    if isinstance(error, dist.DistBackendError):
        return True
    signs = ("Connection closed", "Connection reset", "Broken pipe", "Timed out waiting")
    return "gloo" in str(error) and any(sign in str(error) for sign in signs)

"""Join and leave the process group of a job."""

import errno
import os
import socket
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from d2lmini.ddp.choice import choose_backend, exchange, make_offer
from d2lmini.ddp.collect import wait_for_all_ranks
from d2lmini.ddp.place import find_place
from d2lmini.ddp.records import write_record

# The launcher polls its processes ten times a second. If a survivor reported its lost connection at
# once, the launcher would often take it for the process that failed first.
SECONDS_BEFORE_A_SURVIVOR_REPORTS = 3.0

# gloo's threads need the GIL to drop their last messages. A DDP model that outlives the group waits
# for these threads while holding the GIL, which would be a deadlock.
SECONDS_FOR_GLOO_TO_FINISH = 0.05


@dataclass(frozen=True)
class Worker:
    """One process of the job.

    Attributes
    ----------
    rank : int
        Index of this process, from 0 to world_size - 1.
    world_size : int
        Number of processes on all machines.
    device : torch.device
        Device of this process.
    backend : str
        Communication backend: "nccl" between GPUs, "gloo" between CPUs.
    reason : str
        Why this device and backend were chosen.
    """

    rank: int
    world_size: int
    device: torch.device
    backend: str
    reason: str

    def report(self, event, **values):
        """Report a record, on rank 0 only: `launch` returns it; without `launch` it is printed.

        Numbers that are not finite become text: "NaN", "Infinity" or "-Infinity".
        """
        if self.rank == 0:
            write_record({"event": event, **values})

    def describe(self):
        """Return a record of the job: sizes, devices, and the host and process of each rank."""
        ranks = [None] * self.world_size
        dist.all_gather_object(ranks, {"host": socket.gethostname(), "pid": os.getpid()})
        about = {"world_size": self.world_size, "device": str(self.device)}
        return about | {"backend": self.backend, "reason": self.reason, "ranks": ranks}


@contextmanager
def process_group(device="auto", timeout=60.0):
    """Join the job of the launcher, or a job of one process; leave it at the end.

    Parameters
    ----------
    device : {"auto", "cuda", "cpu"}
        "auto" uses GPUs if each process can have its own.
    timeout : float, default 60
        Seconds that a process waits for the others, at the start and in every collective, before
        it gives up. If a process hangs, the job ends about 35 s after the timeout: the launcher
        gives the process 30 s to exit before it kills it.

    Yields
    ------
    Worker

    Raises
    ------
    ValueError
        If the launcher's variables are incomplete, restarts would hang, or the requested GPUs are
        missing or cannot be used.
    RuntimeError
        If the port is taken, other processes do not join, another process occupies the GPU, or
        contact with another rank is lost.

    Examples
    --------
    >>> with process_group("cpu") as worker:
    ...     print(worker.rank, worker.world_size, worker.backend)
    0 1 gloo
    """
    place = find_place(os.environ)
    offer = make_offer(device, place.local_rank)
    with _explain_failed_join(place, timeout):
        store = _open_store(place, timeout)
        offers = exchange(offer, store, place.rank, place.world_size)
    backend, device_type, reason = choose_backend(offers)
    options = {"store": store, "rank": place.rank, "world_size": place.world_size}
    options |= {"backend": backend, "timeout": timedelta(seconds=timeout)}
    local_device = torch.device("cpu")
    if device_type == "cuda":
        local_device = options["device_id"] = torch.device("cuda", offer.index)
        _select_gpu(local_device)
    with _explain_failed_join(place, timeout):
        dist.init_process_group(**options)
    worker = Worker(place.rank, place.world_size, local_device, backend, reason)
    try:
        yield worker
        wait_for_all_ranks()  # rank 0 may host the store that the others still use
    except BaseException as error:
        if backend == "gloo":  # NCCL would wait here for ranks that no longer respond
            _leave(backend)
        if not _lost_contact(error):
            raise
        time.sleep(SECONDS_BEFORE_A_SURVIVOR_REPORTS)
        raise RuntimeError(
            f"rank {worker.rank} lost contact with another rank, which died or stopped answering. "
            "The launcher's report names the rank that failed; start the job again, from its "
            "checkpoint if it has one."
        ) from error
    _leave(backend)


def _open_store(place, timeout):
    """Return the store for the rendezvous of the processes, hosted by the launcher or by rank 0."""
    if place.address is None:
        return dist.HashStore()  # in memory: a job of one process needs no port
    hosts_it = place.rank == 0 and not place.has_launchers_store
    options = {"is_master": hosts_it, "timeout": timedelta(seconds=timeout)}
    if hosts_it:
        options["use_libuv"] = sys.platform != "win32"  # PyTorch for Windows has no libuv
        if place.address in ("127.0.0.1", "localhost"):  # one machine: accept no other connections
            listener = socket.create_server(("127.0.0.1", place.port))
            options["master_listen_fd"] = listener.detach()
    return dist.TCPStore(place.address, place.port, place.world_size, **options)


@contextmanager
def _explain_failed_join(place, timeout):
    """Explain errors that mean that a process could not join the others."""
    try:
        yield
    except (dist.DistNetworkError, dist.DistStoreError, OSError) as error:
        is_taken = "EADDRINUSE" in str(error) or getattr(error, "errno", 0) == errno.EADDRINUSE
        if is_taken:
            raise RuntimeError(
                f"port {place.port} is taken by another program: set MASTER_PORT to a free one, or "
                "let the launcher find one with --standalone"
            ) from error
        if isinstance(error, OSError):
            raise
        raise RuntimeError(
            f"rank {place.rank} of {place.world_size} could not meet the others at "
            f"{place.address}:{place.port} within {timeout:g} s: check that every machine was "
            "started with the same address, and that none reports an error of its own"
        ) from error


def _select_gpu(device):
    """Make the GPU the current device, which NCCL uses, and create its context."""
    try:
        torch.cuda.set_device(device)
        torch.empty(1, device=device)  # creates the context
    except RuntimeError as error:
        if "busy or unavailable" not in str(error):
            raise
        raise RuntimeError(
            f"{device} serves one process at a time (compute mode EXCLUSIVE_PROCESS), and another "
            "holds it: end that one (if it is the kernel of a notebook, run this from a terminal), "
            "or change the mode with nvidia-smi -c DEFAULT, or take the device 'cpu'"
        ) from error


def _leave(backend):
    if backend == "gloo":
        time.sleep(SECONDS_FOR_GLOO_TO_FINISH)
    dist.destroy_process_group()


def _lost_contact(error):
    """Return whether an error comes from the connection to other ranks, not from this program."""
    if isinstance(error, dist.DistBackendError):
        return True
    signs = ("Connection closed", "Connection reset", "Broken pipe", "Timed out waiting")
    return "gloo" in str(error) and any(sign in str(error) for sign in signs)

"""Meet the other processes of a job, and part from them."""

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

# The launcher looks at its processes ten times a second. A survivor that reported its lost
# connection at once would often be taken for the one that failed first.
SECONDS_BEFORE_A_SURVIVOR_REPORTS = 3.0

# To drop the last messages gloo's threads need the interpreter. A DDP model that outlives the group
# waits for these threads and does not let go of the interpreter: they would wait for each other.
SECONDS_FOR_GLOO_TO_FINISH = 0.05


@dataclass(frozen=True)
class Worker:
    """One process among those of the job: what it is, and what it reports.

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
        """Report a record, on rank 0 only: a line of JSON, or what `launch` returns.

        A number that is not finite becomes text: "NaN", "Infinity" or "-Infinity".
        """
        if self.rank == 0:
            write_record({"event": event, **values})

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
        "auto" takes GPUs if each process can have its own.
    timeout : float
        Seconds that a process waits for the others, at the start and in every collective, before
        it gives up. Default 60 s. A job of which a process does not answer any more, but lives,
        ends about 35 s later: the launcher gives that one 30 s to obey, before it kills it.

    Yields
    ------
    Worker

    Raises
    ------
    ValueError
        If the launcher's variables are incomplete, restarts would hang, or GPUs are asked for that
        are not there or cannot be used.
    RuntimeError
        If the port is taken, the others do not come, another process holds the GPU, or another
        rank is lost.

    Examples
    --------
    >>> with process_group("cpu") as worker:
    ...     print(worker.rank, worker.world_size, worker.backend)
    0 1 gloo
    """
    place = find_place(os.environ)
    offer = make_offer(device, place.local_rank)
    with _explained(place, timeout):
        store = _open_store(place, timeout)
        offers = exchange(offer, store, place.rank, place.world_size)
    backend, device_type, reason = choose_backend(offers)
    options = {"store": store, "rank": place.rank, "world_size": place.world_size}
    options |= {"backend": backend, "timeout": timedelta(seconds=timeout)}
    local_device = torch.device("cpu")
    if device_type == "cuda":
        local_device = options["device_id"] = torch.device("cuda", offer.index)
        _take(local_device)
    with _explained(place, timeout):
        dist.init_process_group(**options)
    worker = Worker(place.rank, place.world_size, local_device, backend, reason)
    try:
        yield worker
        wait_for_all_ranks()  # rank 0 may hold the store that the others still talk to
    except BaseException as error:
        if backend == "gloo":  # NCCL would wait here for ranks that do not answer any more
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
    """Return the store at which the processes meet: the launcher's, or one that rank 0 keeps."""
    if place.address is None:
        return dist.HashStore()  # in memory: a job of one process needs no port
    keeps_it = place.rank == 0 and not place.has_launchers_store
    options = {"is_master": keeps_it, "timeout": timedelta(seconds=timeout)}
    if keeps_it:
        options["use_libuv"] = sys.platform != "win32"  # PyTorch for Windows has no libuv
        if place.address in ("127.0.0.1", "localhost"):  # one machine: nobody else may connect
            listener = socket.create_server(("127.0.0.1", place.port))
            options["master_listen_fd"] = listener.detach()
    return dist.TCPStore(place.address, place.port, place.world_size, **options)


@contextmanager
def _explained(place, timeout):
    """Say what it means that a process could not meet the others."""
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


def _take(device):
    """Make the GPU this process's own: NCCL uses the current one."""
    try:
        torch.cuda.set_device(device)
        torch.empty(1, device=device)  # the first that has to happen there
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
    """Tell an error of the connection between ranks from one of this rank's own program."""
    if isinstance(error, dist.DistBackendError):
        return True
    signs = ("Connection closed", "Connection reset", "Broken pipe", "Timed out waiting")
    return "gloo" in str(error) and any(sign in str(error) for sign in signs)

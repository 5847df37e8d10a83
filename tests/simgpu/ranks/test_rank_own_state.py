"""What a process has one of and a program sets by its rank is each rank's own, and is given back.

Ranks come to the barriers in turn, so what one of them sets holds while the others run.
"""

import builtins
import gc
import io
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import warnings
from contextlib import redirect_stdout

import pytest
import torch
import torch.distributed as dist
from torch.autograd import anomaly_mode
from torch.distributed.tensor import DTensor, Replicate, init_device_mesh
from torch.distributed.tensor.experimental import implicit_replication
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

import simgpu as sim


def run(set_, get):
    """Set something on rank 1; return what ranks 0 and 1 then get, and the caller afterwards."""

    def program(rank):
        dist.init_process_group()
        found = []
        for _ in range(2):
            if rank == 1:
                set_()
            dist.barrier()
            found.append(get())
            dist.barrier()
        assert found[0] == found[1]
        return found[0]

    before = get()
    first, second = sim.spawn(program, nprocs=2)
    assert get() == before
    assert first == before
    assert second != before
    return second


def set_precision():
    torch.backends.cuda.matmul.fp32_precision = "tf32"


def set_variable():
    os.environ["SIMGPU_TEST"] = "1"


class OwnLogger(logging.Logger):
    """Another class of loggers."""


SWITCHES = {
    "type": (lambda: torch.set_default_dtype(torch.float64), torch.get_default_dtype),
    "anomaly": (lambda: torch.autograd.set_detect_anomaly(True), torch.is_anomaly_enabled),
    "deterministic": (
        lambda: torch.use_deterministic_algorithms(True, warn_only=True),
        torch.is_deterministic_algorithms_warn_only_enabled,
    ),
    "precision": (
        lambda: torch.set_float32_matmul_precision("medium"), torch.get_float32_matmul_precision,
    ),
    "precision by its new name": (
        set_precision, lambda: torch.backends.cuda.matmul.fp32_precision == "tf32",
    ),
    "level": (lambda: logging.root.setLevel(logging.DEBUG), lambda: logging.root.level),
    "handlers": (
        lambda: logging.getLogger("simgpu.test").addHandler(logging.NullHandler()),
        lambda: bool(logging.getLogger("simgpu.test").handlers),
    ),
    "logging": (lambda: logging.disable(logging.ERROR), lambda: logging.root.manager.disable),
    "filters of loggers": (
        lambda: logging.getLogger("simgpu.test").addFilter(len),
        lambda: [*logging.getLogger("simgpu.test").filters],
    ),
    "filters of handlers": (
        lambda: [handler.addFilter(len) for handler in logging.root.handlers],
        lambda: [[*handler.filters] for handler in logging.root.handlers],
    ),
    "records of loggers": (
        lambda: logging.setLogRecordFactory(len), logging.getLogRecordFactory,
    ),
    "classes of loggers": (
        lambda: logging.setLoggerClass(OwnLogger), logging.getLoggerClass,
    ),
    "names of levels": (
        lambda: logging.addLevelName(31, "LOUD"), lambda: logging.getLevelName(31),
    ),
    "aliases of levels": (
        lambda: logging.addLevelName(logging.WARNING, "LOUD"),
        lambda: (logging.getLevelName("WARN"), logging.getLevelName("LOUD")),
    ),
    "hook for errors": (lambda: setattr(sys, "excepthook", len), lambda: sys.excepthook is len),
    "hook for errors of threads": (
        lambda: setattr(threading, "excepthook", len), lambda: threading.excepthook,
    ),
    "hook for output": (lambda: setattr(sys, "displayhook", len), lambda: sys.displayhook),
    "how tensors are printed": (
        lambda: torch.set_printoptions(precision=2), lambda: str(torch.tensor([1 / 3])),
    ),
    "directory of temporary files": (
        lambda: setattr(tempfile, "tempdir", "/"), lambda: tempfile.tempdir,
    ),
    "time limit of sockets": (
        lambda: socket.setdefaulttimeout(1), socket.getdefaulttimeout,
    ),
    "recursion": (
        lambda: sys.setrecursionlimit(5001), sys.getrecursionlimit,
    ),
    "when garbage is collected": (lambda: gc.set_threshold(701), gc.get_threshold),
    "variables": (set_variable, lambda: os.environ.get("SIMGPU_TEST")),
    "directory": (lambda: os.chdir("/"), os.getcwd),
    "print": (lambda: setattr(builtins, "print", len), lambda: builtins.print),
    "output": (lambda: setattr(sys, "stdout", io.StringIO()), lambda: str(type(sys.stdout))),
    "warnings": (
        lambda: warnings.simplefilter("ignore", ResourceWarning), lambda: [*warnings.filters],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SWITCHES)
def test_what_one_rank_sets_is_its_own(what):
    run(*SWITCHES[what])


@pytest.mark.slow
def test_matrix_products_are_charged_by_the_precision_of_their_rank():
    def program(rank, fast):
        dist.init_process_group()
        x = torch.ones(2048, 2048, device="sim")
        if rank in fast:
            torch.set_float32_matmul_precision("high")
        dist.barrier()
        start, end = torch.Event(enable_timing=True), torch.Event(enable_timing=True)
        start.record()
        x @ x
        end.record()
        dist.barrier()
        return start.elapsed_time(end)

    none, one, both = (sim.spawn(program, (fast,), nprocs=2) for fast in ((), (1,), (0, 1)))
    assert one == [none[0], both[1]]
    assert one[1] < one[0]
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize("stops", [(), (0,), (1,), (0, 1)])
def test_early_stop_of_checkpointing_is_rank_local(stops):
    """Without it, the last operation of the function is computed again, and counted here."""

    def program(rank):
        dist.init_process_group()
        calls = []

        def function(x):
            y = x.sin()
            dist.all_reduce(torch.ones(1, device=x.device))
            calls.append("first")
            y = y.exp() + 1
            calls.append("last")
            return y

        x = torch.ones(3, device="sim", requires_grad=True)
        with set_checkpoint_early_stop(rank in stops):
            y = checkpoint(function, x, use_reentrant=False).sum()
            dist.barrier()
            y.backward()
        return calls.count("last")

    assert sim.spawn(program, nprocs=2) == [1 if rank in stops else 2 for rank in range(2)]


def test_context_managers_that_ranks_leave_in_turn():
    def program(rank):
        dist.init_process_group()
        mesh = init_device_mesh("sim", (2,))
        x = DTensor.from_local(torch.ones(4, device="sim"), mesh, [Replicate()])
        plain = torch.ones(4, device="sim")
        for _ in range(rank):
            dist.barrier()
        with implicit_replication(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                dist.barrier()
            warnings.warn(f"of rank {rank}", stacklevel=1)
            out = (x + plain).to_local().tolist()
        for _ in range(1 - rank):
            dist.barrier()
        with pytest.raises(RuntimeError, match=r"mixed torch\.Tensor and DTensor"):
            x + plain
        return [str(w.message) for w in caught], out

    filters = [*warnings.filters]
    assert sim.spawn(program, nprocs=2) == [([f"of rank {r}"], [2.0] * 4) for r in range(2)]
    assert filters == warnings.filters


def test_a_rank_is_silent(capsys):
    def program(rank):
        dist.init_process_group()
        with redirect_stdout(io.StringIO() if rank else sys.stdout):
            print("before", rank)
            dist.barrier()
            print("after", rank)
        dist.barrier()

    sim.spawn(program, nprocs=3)
    assert capsys.readouterr().out == "before 0\nafter 0\n"


def test_anomalies_are_found_on_the_rank_that_looks_for_them():
    def program(rank):
        dist.init_process_group()
        x = torch.zeros(2, device="sim", requires_grad=True)
        with anomaly_mode.set_detect_anomaly(rank == 1):
            y = (x.sqrt() * 0).sum()
            dist.barrier()
            if rank == 1:
                with pytest.raises(RuntimeError, match="nan"):
                    y.backward()
                return True
            y.backward()
            return x.grad.isnan().all().item()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert sim.spawn(program, nprocs=2) == [True, True]


def test_each_rank_has_its_own_signal_handlers():
    def program(rank):
        got = []
        before = signal.signal(signal.SIGTERM, lambda number, frame: got.append((rank, number)))
        dist.init_process_group()
        dist.barrier()
        signal.raise_signal(signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert signal.signal(signal.SIGTERM, signal.SIG_IGN) is not before
        os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
        for wrong in (lambda: signal.signal(signal.SIGKILL, print), lambda: signal.signal(1, 7)):
            with pytest.raises((OSError, TypeError)):
                wrong()
        return before, got

    handler = signal.getsignal(signal.SIGTERM)
    expected = [(handler, [(rank, signal.SIGTERM)] * 2) for rank in range(2)]
    assert sim.spawn(program, nprocs=2) == expected
    assert signal.signal(signal.SIGTERM, handler) is handler


@pytest.mark.slow
def test_timers_of_signals_are_refused():
    with pytest.raises(NotImplementedError, match=r"signal\.alarm in a rank.* real seconds"):
        sim.spawn(lambda rank: signal.alarm(1), nprocs=2)
    assert sim.spawn(lambda rank: signal.alarm(0), nprocs=2) == [0, 0]


def test_only_the_first_rank_speaks(capfd):
    """The usual filter: each rank adds its own to the logger that the module has made."""

    def program(rank):
        dist.init_process_group()
        log = logging.getLogger("simgpu.speaks")
        log.setLevel(logging.INFO)
        log.addHandler(logging.StreamHandler())
        log.addFilter(lambda record: rank == 0)
        dist.all_reduce(torch.ones(1, device="sim"))
        log.info("step 1 on rank %d", rank)

    sim.spawn(program, nprocs=2)
    assert capfd.readouterr().err.splitlines() == ["step 1 on rank 0"]

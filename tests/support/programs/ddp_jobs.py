"""Start jobs for the tests of data-parallel training."""

import functools
import itertools
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from support.paths import PYTHONPATH, SCRIPTS

from d2lmini.ddp import launcher_environment, torchrun_command

SCRIPT = SCRIPTS / "train_ddp.py"

# One core per process, and nothing leaves this machine. What a command needs, it has itself.
ENV = launcher_environment(threads=1) | {"PYTHONPATH": PYTHONPATH}
del ENV["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"]

# The run that is killed and resumed. Dropout and momentum make it depend on all that is saved.
RUN = ["--model", "lenet", "--dropout", "0.2", "--momentum", "0.9", "--synthetic", "1200"]
RUN += ["--batch-size", "64", "--epochs", "3", "--precision", "float32", "--device", "cpu"]
RUN += ["--checkpoint-every", "4", "--log-every", "1"]


class Process:
    """A job in the background, whose records are read as they come."""

    def __init__(self, command):
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (read after the process's end)
        self.process = subprocess.Popen(
            command, env=ENV, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        self.records = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.records.append(json.loads(line))

    def wait_for(self, is_wanted, timeout=180):
        """Return the first record for which `is_wanted` is true."""
        end = time.monotonic() + timeout
        while time.monotonic() < end and (self._reader.is_alive() or self.process.poll() is None):
            for record in list(self.records):
                if is_wanted(record):
                    return record
            time.sleep(0.005)
        self.stop()
        raise AssertionError(f"no such record; {self.records[-3:]}\n{self.stderr()}")

    def finish(self, timeout=180):
        """Wait for the end; return the exit code and what was written to standard error."""
        try:
            code = self.process.wait(timeout)
        finally:
            self.stop()
        self._reader.join(10)
        return code, self.stderr()

    def stop(self):
        """End the launcher such that it can end its processes, if it still runs."""
        self.process.terminate()
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def stderr(self):
        self.errors.seek(0)
        return self.errors.read()


@functools.cache
def run_scenarios(num_ranks):
    """Return what ddp_scenarios.py finds on so many ranks, and the records of the run `RUN`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.pt"
        run = [*RUN, "--checkpoint", str(Path(folder) / "run.pt")] if num_ranks == 2 else []
        script = Path(__file__).with_name("ddp_scenarios.py")
        job = Process(torchrun_command(script, path, *run, nproc_per_node=num_ranks))
        code, errors = job.finish()
        assert code == 0, errors
        return torch.load(path, weights_only=True), job.records


def end_of(records):
    """Return the fingerprint of the weights at the end of a run."""
    return next(record["weights"] for record in records if record["event"] == "end")


def is_running(pid):
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return done.stdout.strip()[:1] not in ("", "Z")


@dataclass
class Blow:
    """A signal that a process of a job gets: the launcher, or one of its ranks.

    Sent when the job has written so many records, and some seconds later.
    """

    signal: signal.Signals
    victim: str
    records: int
    delay: float = 0.0


VICTIMS = {"launcher": None, "rank 0": 0, "rank 1": 1}


def random_blow(draw):
    """Draw a signal, a victim and a moment."""
    sign = draw.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    return Blow(sign, draw.choice([*VICTIMS]), draw.randrange(1, 25), draw.uniform(0, 0.05))


def strike(job, blow):
    """Send a job its signal, if it does not end before, and wait until its processes are gone."""
    ranks = [rank["pid"] for rank in job.wait_for(lambda r: r["event"] == "start")["ranks"]]
    job.wait_for(lambda r: len(job.records) >= blow.records or r["event"] == "end")
    time.sleep(blow.delay)
    rank = VICTIMS[blow.victim]
    pid = job.process.pid if rank is None else ranks[rank]
    if is_running(pid):
        os.kill(pid, blow.signal)
    code, errors = job.finish()
    for _ in range(600):  # ranks of a killed launcher notice it by themselves
        if not any(map(is_running, ranks)):
            return
        time.sleep(0.1)
    raise AssertionError(f"{blow}: {ranks} still run after code {code}\n{errors}")


def run_through(blows, path):
    """Start the run `RUN` once more than there are blows; return the weights at the end."""
    command = torchrun_command(SCRIPT, *RUN, "--checkpoint", path, "--resume", nproc_per_node=2)
    reached = [(0, 0)]
    for blow in itertools.chain(blows, [None]):
        job = Process(command)
        if blow is None:
            code, errors = job.finish()
            assert code == 0, errors
        else:
            strike(job, blow)
        begin = next(record for record in job.records if record["event"] == "begin")
        reached.append((begin["epoch"], begin["step"]))
    assert reached == sorted(reached), "nothing that was saved is done again"
    assert os.listdir(path.parent) == [path.name]
    return end_of(job.records)

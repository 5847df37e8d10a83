"""A group of processes for the peers from ``torch.distributed``; this process is rank 0.

The other ranks are started once and wait, without using the processor, for the name of a job. So
one round can measure ours in this process and then the peer in all of them.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

ROOT = Path(__file__).parents[1]


class Group:
    """A process and its helpers, seen from rank 0.

    Parameters
    ----------
    k : int
        Number of processes.
    threads : int
        CPU threads of each while a job runs.
    """

    def __init__(self, k, threads):
        self.k, self.threads = k, threads

    def run(self, job, **arguments):
        """Run a job of `benchmarks.jobs` in all processes; return rank 0's result, seconds."""
        dist.broadcast_object_list([(job, arguments)], src=0)
        return _run(job, arguments, self.threads)


@contextlib.contextmanager
def processes(k):
    """Start a group of k processes, and end it."""
    threads = max(1, torch.get_num_threads() // k)
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        helpers = [_start(rank, k, threads, store) for rank in range(1, k)]
        try:
            _join(0, k, store)
            yield Group(k, threads)
            dist.broadcast_object_list([(None, {})], src=0)
            for helper in helpers:
                helper.wait(timeout=60)
        finally:
            for helper in helpers:
                helper.kill()
            _leave()


def _start(rank, k, threads, store):
    command = [sys.executable, "-m", "benchmarks.group", f"--rank={rank}", f"--world-size={k}"]
    command += [f"--threads={threads}", f"--store={store}"]
    env = os.environ | {"OMP_NUM_THREADS": str(threads)}
    return subprocess.Popen(command, cwd=ROOT, env=env)


def uses_cuda(k):
    """Say whether each of k processes can have its own GPU."""
    return torch.cuda.device_count() >= k


def _join(rank, k, store):
    if uses_cuda(k):
        torch.cuda.set_device(rank)
    backend = "cpu:gloo,cuda:nccl" if uses_cuda(k) else "gloo"
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=k)


def _leave():
    from benchmarks import jobs

    jobs.forget()
    if dist.is_initialized():
        dist.destroy_process_group()


def _run(job, arguments, threads):
    from benchmarks import jobs

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return getattr(jobs, job)(**arguments)
    finally:
        torch.set_num_threads(before)


def serve(rank, k, threads, store):
    """Run what rank 0 asks for, until it asks for nothing."""
    _join(rank, k, store)
    while True:
        message = [None]
        dist.broadcast_object_list(message, src=0)
        job, arguments = message[0]
        if job is None:
            break
        _run(job, arguments, threads)
    _leave()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("--rank", "--world-size", "--threads"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--store", required=True)
    options = parser.parse_args()
    serve(options.rank, options.world_size, options.threads, options.store)

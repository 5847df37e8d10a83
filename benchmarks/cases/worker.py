"""Measure in several processes: start them, and take turns in them.

torchrun starts this module in each process. All variants of a round run in the same processes, one
after the other. Those that need only one process run in rank 0, while the others wait.
"""

import gc
import json
import sys
from dataclasses import asdict

import torch
import torch.distributed as dist

from benchmarks.cases import load
from benchmarks.measure import Row, Settings, timed
from d2lmini import ddp, synchronize


def rows(name, k, settings):
    """Return what ``shared_rows(processes, settings)`` of a benchmark yields in k processes."""
    arguments = ["-m", __name__, name, json.dumps(asdict(settings))]
    threads = torch.get_num_threads()
    found = ddp.launch(*arguments, nproc_per_node=k, threads=threads)
    return [Row.from_dict(record["row"]) for record in found]


class Processes:
    """k processes, seen from one of them.

    Attributes
    ----------
    rank, k : int
        Number of this process, and of all.
    device : torch.device
        Where this process computes: its own GPU if each has one.
    devices : list of torch.device
        Of all processes.
    threads : int
        CPU threads of a process that works alone.
    """

    def __init__(self, worker):
        self.rank, self.k, self.device = worker.rank, worker.world_size, worker.device
        on_gpu = self.device.type == "cuda"
        self.devices = [torch.device("cuda", i) if on_gpu else self.device for i in range(self.k)]
        self.threads = torch.get_num_threads()
        self._gloo = dist.new_group(backend="gloo")  # waits without using a core or a GPU

    def _meet(self):
        """Wait for all processes."""
        dist.all_reduce(torch.zeros(1), group=self._gloo)

    def alone(self, function, threads=None):
        """Return a variant for `interleave`: rank 0 calls `function`, the others wait."""
        if self.rank == 0:
            measure = timed(function, *self.devices)
        else:
            measure = timed(self._meet, self.device)

        def seconds():
            torch.set_num_threads(threads or self.threads)
            self._meet()
            found = measure()
            if self.rank == 0:
                self._meet()
            return found

        return seconds

    def together(self, function, threads=None):
        """Return a variant for `interleave`: all call `function`, and the slowest counts."""

        def until_all_are_done():
            function()
            synchronize(self.device)
            self._meet()

        measure = timed(until_all_are_done, self.device)

        def seconds():
            torch.set_num_threads(threads or max(1, self.threads // self.k))
            self._meet()
            return measure()

        return seconds


def main():
    """Run a benchmark's part of this process; rank 0 reports its rows."""
    name, settings = sys.argv[1], Settings(**json.loads(sys.argv[2]))
    with ddp.process_group() as worker:
        for row in load(name).shared_rows(Processes(worker), settings):
            worker.report("row", row=row.to_dict())
        gc.collect()  # a model in DDP must go before its process group


if __name__ == "__main__":
    main()

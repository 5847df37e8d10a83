"""Let simulated hosts wait for the batches of the script's data loader, in a lane of their own."""

import functools
import weakref
from collections import defaultdict

from simgpu.backend.pytorch.replacements import Replacements, find
from simgpu.clock import current
from simgpu.clock.current import state
from simgpu.clock.trace import LOADER, WAIT_FOR_BATCH
from simgpu.ranks.process.threads import running_rank
from simgpu.run.loader.report import Batch, Input, input_of
from simgpu.run.loader.stopwatch import Stopwatch
from simgpu.run.loader.supply import Supply
from simgpu.run.loader.worker import Made, loop

_LOADER = "torch.utils.data.dataloader"
_ITER = f"{_LOADER}:DataLoader.__iter__"
_NEXT = f"{_LOADER}:_BaseDataLoaderIter.__next__"
_RECEIVE = f"{_LOADER}:_MultiProcessingDataLoaderIter._process_data"
_LOOP = "torch.utils.data._utils.worker:_worker_loop"
_OF_HOST = 0  # its stream in the lane; that of worker i is i + 1


class Loaders:
    """Measures the data loaders of ranks inside a ``with`` block, or lets each batch take a time.

    Parameters
    ----------
    choice : Choice
    steps : Steps
        Those of the ranks.

    Attributes
    ----------
    choice : Choice
    """

    def __init__(self, choice, steps):
        self.choice, self._steps = choice, steps
        self._replacements = Replacements()
        self._supplies = weakref.WeakKeyDictionary()  # iterator -> the batches of its epoch
        self._received = weakref.WeakKeyDictionary()  # iterator -> what a worker has sent
        self._busy = set()  # ranks that take a batch
        self._batches, self._world = [], None  # of the last run

    def __enter__(self):
        if self.choice.watches or self.choice.counts:
            new = {name: self._timed(find(name), how) for name, how in self._functions()}
            self._replacements.add(new)
        if self.choice.watches:
            self._replacements.add({_RECEIVE: self._receive(find(_RECEIVE)), _LOOP: loop})
        return self

    def __exit__(self, *_):
        self._replacements.close()

    def input(self, num_steps) -> Input | None:
        """Return what the batches of that many steps took, after the first; 0: all batches."""
        return input_of(self._within(num_steps), self.choice)

    def measured(self, num_steps) -> dict[int, list[float]]:
        """Return what the batches of that many steps took, in seconds, by rank; {} if as given."""
        found = defaultdict(list)
        for batch in self._within(num_steps) if self.choice.watches else ():
            found[batch.rank].append(batch.interval)
        return dict(found)

    def _within(self, num_steps):
        return [b for b in self._batches if not num_steps or 1 <= b.step <= num_steps]

    def notes(self) -> list[str]:
        """Return what the summary says if the loader was to count, and there was none."""
        if self._batches or not self.choice.counts:
            return []
        how = f"--loader {self.choice}"
        return [f"{how}: no rank has taken a batch from a torch.utils.data.DataLoader"]

    def _functions(self):
        return (_ITER, self._begin_epoch), (_NEXT, self._take)

    def _timed(self, real, count):
        """Pass what a function of a loader returns, and what it took, on to `count`."""

        @functools.wraps(real)
        def timed(of_loader):
            rank = running_rank() if state.machine is not None else None  # None: in a worker
            if rank is None or rank.number in self._busy:  # inside another loader
                return real(of_loader)
            self._busy.add(rank.number)
            try:
                began, watch = state.machine.host, Stopwatch(lambda: rank.away)
                result = real(of_loader)
                count(of_loader, result, began, watch)
            finally:
                self._busy.discard(rank.number)
            return result

        return timed

    def _receive(self, real):
        @functools.wraps(real)
        def receive(iterator, data, *args):
            if isinstance(data, Made):
                self._received[iterator] = data
                data = data.batch
            return real(iterator, data, *args)

        return receive

    def _begin_epoch(self, loader, iterator, began, watch):
        """Begin the batches of an epoch; starting workers takes the host some time."""
        if not self.choice.counts or not loader.num_workers:
            return
        if self.choice.watches:
            self._work(began, watch.computed(), "start the workers")
        self._supplies[iterator] = self._new_supply(iterator)

    def _new_supply(self, iterator):
        return Supply(state.machine.host, iterator._num_workers * iterator._prefetch_factor)

    def _take(self, iterator, batch, began, watch):
        if iterator._num_workers:
            self._take_from_workers(iterator, watch)
            return
        seconds = self.choice.seconds
        simulated = state.machine.host - began  # such as time.sleep() in the dataset
        more = watch.read() if seconds is None else max(seconds - simulated, 0.0)
        if self.choice.counts:
            self._work(began, more, "make a batch")
        self._note(simulated + more, 0)

    def _take_from_workers(self, iterator, watch):
        made, own = self._received.pop(iterator, None), watch.computed()
        if self.choice.seconds is not None:
            made, own = Made(None, None, 0, self.choice.seconds), 0.0
        if made is None:  # another worker loop than PyTorch's
            return
        if self.choice.counts:
            self._wait(iterator, made, own)
        self._note(made.seconds, iterator._num_workers)

    def _work(self, began, seconds, name):
        """Keep the host busy for some seconds more with what it has begun to do."""
        machine = state.machine
        with machine.lock:
            machine.host += seconds
            name = f"{name} ({self.choice.source})"
            machine.trace.add(machine.host_row, LOADER, _OF_HOST, name, began, machine.host - began)

    def _wait(self, iterator, made, own):
        """Make the host wait until workers have made the next batch, and take it."""
        machine = state.machine
        supply = self._supplies.get(iterator)
        if supply is None:
            supply = self._supplies[iterator] = self._new_supply(iterator)
        begin, end = supply.make(
            machine.host, made.seconds, made.worker, made.number, made.start_up
        )
        name = f"worker {made.worker} makes a batch ({self.choice.source})"
        with machine.lock:
            machine.trace.add(machine.host_row, LOADER, made.worker + 1, name, begin, end - begin)
        ready = supply.pin(end, made.pinning)
        machine.wait_until(max(ready, machine.host) + own, WAIT_FOR_BATCH)
        supply.take(machine.host)

    def _note(self, seconds, workers):
        if self._world is not current.ranks:  # the ranks have started again
            self._batches, self._world = [], current.ranks
        serial = self.choice.seconds is not None or not workers
        interval = seconds / (1 if serial else workers)
        rank = current.ranks.rank.number
        self._batches.append(Batch(rank, self._steps.made_by(rank), interval, workers))

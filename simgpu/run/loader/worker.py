"""What runs in the workers of a data loader: each batch is sent with the seconds that it took."""

import inspect
import time
from dataclasses import dataclass
from typing import Any

from torch._utils import ExceptionWrapper
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data._utils.worker import _IterableDatasetStopIteration, _worker_loop

from simgpu.run.loader.stopwatch import Stopwatch

_SIGNATURE = inspect.signature(_worker_loop)
_NO_BATCH = ExceptionWrapper, _IterableDatasetStopIteration


@dataclass
class Made:
    """A batch of a worker, and what it took.

    Attributes
    ----------
    batch : object
        What the script gets.
    number : int
        As the loader counts batches, from 0 in each epoch.
    worker : int
        Which worker has made it.
    seconds : float
        What the worker needed for it.
    start_up : float
        What the worker needed before its first batch; 0 for the others.
    pinning : float
        What the thread needed that pins memory.
    """

    batch: Any
    number: int
    worker: int
    seconds: float
    start_up: float = 0.0
    pinning: float = 0.0

    def pin_memory(self):
        """Pin the batch; the loader's thread calls this."""
        before = time.thread_time()
        self.batch = pin_memory(self.batch)
        self.pinning = time.thread_time() - before
        return self


def loop(*args, **kwargs) -> None:
    """Run PyTorch's ``_worker_loop`` with queues that measure."""
    call = _SIGNATURE.bind(*args, **kwargs)
    asked, sent = call.arguments["index_queue"], call.arguments["data_queue"]
    call.arguments["index_queue"] = asked = _Asked(asked)
    call.arguments["data_queue"] = _Sent(sent, asked, call.arguments["worker_id"])
    _worker_loop(*call.args, **call.kwargs)


class _Queue:
    """A queue of another process; what is not defined here is the queue's."""

    def __init__(self, queue):
        self._queue = queue

    def __getattr__(self, name):
        return getattr(self._queue, name)


class _Asked(_Queue):
    """The queue from which a worker learns what is in the next batch."""

    def __init__(self, queue):
        super().__init__(queue)
        self._starting, self.start_up = Stopwatch(), None
        self.watch = None

    def get(self, *args, **kwargs):
        """Return what to do next; from then on the batch takes time."""
        if self.start_up is None:
            self.start_up = self._starting.read()
        item = self._queue.get(*args, **kwargs)
        self.watch = Stopwatch()
        return item


class _Sent(_Queue):
    """The queue in which a worker sends batches."""

    def __init__(self, queue, asked, worker):
        super().__init__(queue)
        self._asked, self._worker = asked, worker

    def put(self, item, *args, **kwargs):
        """Send a batch with its seconds, and anything else as it is."""
        number, data = item
        if isinstance(number, int) and not isinstance(data, _NO_BATCH):
            start_up, self._asked.start_up = self._asked.start_up, 0.0
            data = Made(data, number, self._worker, self._asked.watch.read(), start_up)
        self._queue.put((number, data), *args, **kwargs)

"""When the batches of a loader are ready, in simulated time: a queue with workers behind it."""


class Supply:
    """The batches of one epoch of a loader.

    A worker makes a batch when it has made its last one and the batch has been asked for. `depth`
    of them are asked for at once; after that, each batch that is taken asks for one more. So a
    loader that is faster than the GPUs is at most that far ahead of them.

    Parameters
    ----------
    now : float
        When the epoch begins, in simulated seconds.
    depth : int
        Number of batches that are asked for ahead.
    """

    def __init__(self, now, depth):
        self._asked = [now] * depth  # when, by the number of the batch
        self._free = {}  # worker -> when it has made its last batch
        self._pinned = now  # when the last batch has been pinned
        self._count = 0

    def make(self, now, seconds, worker=0, number=None, start_up=0.0) -> tuple:
        """Return when a worker begins the next batch, and when it is made.

        Parameters
        ----------
        now : float
            When the host wants it.
        seconds : float
            What it takes.
        worker : int
        number : int, optional
            That of the batch; by default one more than the last.
        start_up : float, default 0 s
            What the worker needs before it can begin.
        """
        number = self._count if number is None else number
        self._count += 1
        while len(self._asked) <= number:  # in place of workers that have nothing left
            self._asked.append(now)
        begin = max(self._free.get(worker, 0.0), self._asked[number]) + start_up
        self._free[worker] = begin + seconds
        return begin, begin + seconds

    def pin(self, made, seconds) -> float:
        """Return when a batch is pinned that is made by then; one thread pins all of them."""
        if seconds:
            made = self._pinned = max(made, self._pinned) + seconds
        return made

    def take(self, now) -> None:
        """Take a batch, so that one more is asked for."""
        self._asked.append(now)

    def __len__(self):
        return self._count

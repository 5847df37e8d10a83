"""Measure time correctly on devices that work asynchronously."""

from itertools import accumulate

from d2lmini.seconds import SIMULATED
from d2lmini.streams import devices_in_use, now, synchronize


class Timer:
    """A stopwatch that records several times.

    Parameters
    ----------
    *devices : torch.device or str
        Devices to wait for at both ends of a measurement. With simulated GPUs the times are
        simulated. Without devices the timer reads the wall clock and waits for nothing.

    Attributes
    ----------
    times : list of d2lmini.seconds.Seconds
        The recorded times: floats that refuse to be compared with times of another clock.

    Examples
    --------
    >>> timer = Timer()
    >>> timer.start()
    >>> timer.stop() >= 0
    True
    >>> len(timer.times)
    1
    """

    def __init__(self, *devices):
        self.devices = devices or ("cpu",)
        self.times = []
        self._started = None

    def start(self):
        """Start the stopwatch, again if it was running."""
        synchronize(*self.devices)
        self._started = now(*self.devices)

    def stop(self):
        """Stop, record the time since `start` and return it.

        Returns
        -------
        d2lmini.seconds.Seconds

        Raises
        ------
        RuntimeError
            If the timer was not started.
        """
        if self._started is None:
            raise RuntimeError("Timer.stop() without start(); call start() first")
        synchronize(*self.devices)
        self.times.append(now(*self.devices) - self._started)
        self._started = None
        return self.times[-1]

    def avg(self):
        """Return the mean of the recorded times, in seconds."""
        if not self.times:
            raise RuntimeError("no time was recorded; call start() and stop() first")
        return sum(self.times) / len(self.times)

    def sum(self):
        """Return the sum of the recorded times, in seconds."""
        return sum(self.times)

    def cumsum(self):
        """Return the running sums of the recorded times, in seconds."""
        return list(accumulate(self.times))


class Benchmark:
    """Time a block of code once, waiting for all devices at both ends.

    Prints ``description: 0.1234 sec``, with ``(simulated)`` behind it when the clock is virtual.
    A block that raises prints nothing.

    Parameters
    ----------
    description : str, default "Done"
        What is timed.
    devices : iterable of torch.device, optional
        Devices to wait for; by default every device in use, ``["cpu"]`` if none is.

    Attributes
    ----------
    seconds : d2lmini.seconds.Seconds or None
        The time that the block took, as a float that refuses to be compared with times of another
        clock; None before the block has ended.

    Raises
    ------
    ValueError
        If `devices` is empty, or if simulated and real GPUs are mixed (by default: both in use).

    Examples
    --------
    >>> with Benchmark("a sum", devices=["cpu"]) as b:  # doctest: +ELLIPSIS
    ...     total = sum(range(1000))
    a sum: 0.0... sec
    >>> b.seconds > 0
    True
    """

    def __init__(self, description="Done", devices=None):
        self.description = description
        self.devices = None if devices is None else list(devices)
        if self.devices == []:
            raise ValueError("devices is empty; leave it out to time every device in use")
        self.seconds = None

    def __enter__(self):
        devices = self.devices or devices_in_use() or ["cpu"]
        self._timer = Timer(*devices)
        self._timer.start()
        return self

    def __exit__(self, exc_type, *args):
        if exc_type is not None:
            return
        self.seconds = self._timer.stop()
        suffix = " (simulated)" if self.seconds.clock == SIMULATED else ""
        print(f"{self.description}: {self.seconds:.4f} sec{suffix}")

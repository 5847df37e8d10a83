"""Measure time on asynchronous devices, and keep real and simulated times apart."""

import time
from itertools import accumulate

import torch

import simgpu as sim
from d2lmini.devices import devices_in_use
from simgpu import device_name, is_simulated, torch_device

SIMULATED, MEASURED = "simulated", "measured"


class Seconds(float):
    """A time in seconds that remembers the clock it was read from.

    It is a float, except that adding, subtracting, dividing or comparing times of different clocks
    is an error. Sums, differences and multiples keep the clock; other results are plain floats.

    Parameters
    ----------
    value : float
        Seconds.
    clock : {"measured", "simulated"}
        The wall clock, or the virtual clock of simulated GPUs.

    Raises
    ------
    ValueError
        If times of the two clocks are combined. ``float(seconds)`` drops the clock, for deliberate
        comparisons.

    Examples
    --------
    >>> one, two = Seconds(0.3, "simulated"), Seconds(0.2, "simulated")
    >>> round(one / two, 3), (one + two).clock
    (1.5, 'simulated')
    >>> one < Seconds(0.1, "measured")
    Traceback (most recent call last):
        ...
    ValueError: 0.3 s is simulated, 0.1 s is measured: two clocks that cannot be compared; run \
both on simulated GPUs, or both on real ones
    """

    __slots__ = ("clock",)

    def __new__(cls, value, clock=MEASURED):
        """Create a float with a clock."""
        seconds = super().__new__(cls, value)
        seconds.clock = clock
        return seconds

    def _checked(self, other):
        if isinstance(other, Seconds) and other.clock != self.clock:
            raise ValueError(
                f"{float(self):.6g} s is {self.clock}, {float(other):.6g} s is {other.clock}: two "
                "clocks that cannot be compared; run both on simulated GPUs, or both on real ones"
            )
        return other

    def _keep(self, value):
        return value if value is NotImplemented else Seconds(value, self.clock)

    def __add__(self, other):
        return self._keep(super().__add__(self._checked(other)))

    __radd__ = __add__

    def __sub__(self, other):
        return self._keep(super().__sub__(self._checked(other)))

    def __rsub__(self, other):
        return self._keep(super().__rsub__(self._checked(other)))

    def __mul__(self, other):
        return self._keep(super().__mul__(other))

    __rmul__ = __mul__

    def __truediv__(self, other):
        value = super().__truediv__(self._checked(other))
        return value if isinstance(other, Seconds) else self._keep(value)

    def __lt__(self, other):
        return super().__lt__(self._checked(other))

    def __le__(self, other):
        return super().__le__(self._checked(other))

    def __gt__(self, other):
        return super().__gt__(self._checked(other))

    def __ge__(self, other):
        return super().__ge__(self._checked(other))


def synchronize(*devices):
    """Wait until all work queued on `devices` is done.

    Parameters
    ----------
    *devices : torch.device or str
        Real or simulated GPUs; a CPU needs no waiting. Without arguments: all devices in use.
    """
    for device in map(torch_device, devices or devices_in_use()):
        if is_simulated(device):
            sim.synchronize(device)
        elif device.type == "cuda":
            torch.cuda.synchronize(device)


def now(*devices):
    """Return the time on the clock of `devices`, in seconds from an arbitrary start.

    Simulated GPUs have a virtual clock; all other devices use the wall clock.

    Parameters
    ----------
    *devices : torch.device or str
        Without arguments: all devices in use.

    Returns
    -------
    d2lmini.timing.Seconds
        A float that raises an error when compared with times of the other clock.

    Raises
    ------
    ValueError
        If real and simulated GPUs are mixed: their clocks cannot be compared.
    """
    devices = devices or devices_in_use()
    simulated = [device for device in devices if is_simulated(device)]
    real = [d for d in devices if not is_simulated(d) and torch.device(d).type != "cpu"]
    if simulated and real:
        raise ValueError(
            f"{', '.join(map(device_name, devices))}: simulated and real GPUs have different "
            "clocks; time them separately, and name the devices that you time"
        )
    return Seconds(sim.now(), SIMULATED) if simulated else Seconds(time.perf_counter(), MEASURED)


class Timer:
    """A stopwatch that records times.

    Parameters
    ----------
    *devices : torch.device or str
        Devices to wait for at both ends of a measurement. With simulated GPUs the times are
        simulated. Without devices the timer reads the wall clock and waits for nothing.

    Attributes
    ----------
    times : list of d2lmini.timing.Seconds
        The recorded times: floats that raise an error when compared with times of another clock.

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
        """Start the stopwatch, or restart it if it was running."""
        synchronize(*self.devices)
        self._started = now(*self.devices)

    def stop(self):
        """Stop, record the time since `start` and return it.

        Returns
        -------
        d2lmini.timing.Seconds

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

    Prints ``description: 0.1234 sec``, followed by ``(simulated)`` if the clock is virtual. If the
    block raises, nothing is printed.

    Parameters
    ----------
    description : str, default "Done"
        What is timed.
    devices : iterable of torch.device, optional
        Devices to wait for; by default every device in use, ``["cpu"]`` if none is.

    Attributes
    ----------
    seconds : d2lmini.timing.Seconds or None
        The time of the block, as a float that raises an error when compared with times of another
        clock; None until the block has ended.

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

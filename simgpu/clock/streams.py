"""Streams and events of simulated GPUs, with the names and rules of `torch.cuda`."""

import torch
from torch.autograd import DeviceType

from simgpu.clock import current
from simgpu.naming import CUDA, device_type
from simgpu.races import detector as races


class Stream:
    """A queue of work on one simulated GPU; work in one stream runs in order.

    Work in different streams may overlap where it uses different engines: kernels share the
    device's compute engine, copies have one engine for each direction. As in PyTorch, a side
    stream does not wait for the default stream unless told to.

    Parameters
    ----------
    device : torch.device, str or int, optional
        Default: the current device.
    priority : int, default 0
        Accepted for compatibility with `torch.cuda.Stream`. In a rank of `spawn`, kernels of
        streams with a negative priority run concurrently with the others; elsewhere it has no
        effect.

    Raises
    ------
    ValueError
        If there is no such simulated GPU.

    Examples
    --------
    >>> import torch
    >>> import simgpu as sim
    >>> (device,) = sim.configure(1)
    >>> side = sim.Stream(device)
    >>> with side:
    ...     x = torch.ones(1000, device=device)
    >>> side.query()
    False
    >>> side.synchronize()
    >>> side.query()
    True
    """

    def __init__(self, device=None, priority=0):
        self._attach(current.find_device(device), priority)

    @classmethod
    def of(cls, device) -> "Stream":
        """Return a new stream of a `simgpu.clock.machine.Device`."""
        stream = cls.__new__(cls)
        stream._attach(device)
        return stream

    def _attach(self, device, priority=0):
        self._device = device
        self.compute = device.urgent if priority < 0 else device.compute  # where its kernels run
        self.number = len(device.streams)
        self.priority = priority
        self.end = device.machine.host
        self._outer = []
        device.streams.append(self)

    @property
    def device(self) -> torch.device:
        """The device of the stream."""
        return self._device.torch_device

    @property
    def stream_id(self) -> int:
        """Number of the stream on its device; 0 is the default stream."""
        return self.number

    cuda_stream = stream_id

    @property
    def device_index(self) -> int:
        """Number of its device."""
        return self._device.index

    @property
    def device_type(self) -> int:
        """Number of the type of its device in PyTorch."""
        return int(DeviceType.CUDA if device_type() == CUDA else DeviceType.PrivateUse1)

    @staticmethod
    def priority_range() -> tuple:
        """Return the least and the greatest priority, as on CUDA."""
        return 0, -5

    def is_capturing(self) -> bool:
        """Return False: no stream is captured into a graph."""
        return False

    def synchronize(self) -> None:
        """Make the host wait until everything issued so far in this stream is done."""
        self._machine().wait_until(self.end, f"synchronize stream {self.number}", (self,))

    def wait_event(self, event: "Event") -> None:
        """Make later work in this stream wait for `event`; the host does not wait."""
        with self._machine().lock:
            if event._moment is not None:
                self.end = max(self.end, event._moment)
                if races.active is not None:
                    races.active.wait(self, event)

    def wait_stream(self, stream: "Stream") -> None:
        """Make later work in this stream wait for the work that is now in `stream`."""
        stream._machine()
        with self._machine().lock:
            self.end = max(self.end, stream.end)
            if races.active is not None:
                races.active.wait(self, stream)

    def record_event(self, event: "Event | None" = None) -> "Event":
        """Record `event` (default: a new one) after the work that is now in this stream."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> bool:
        """Return whether all work in this stream is done; asking takes the host a microsecond."""
        return _poll(self._machine(), self.end, self)

    def __enter__(self):
        machine = self._machine()
        self._outer.append((machine.current_index(), self._device.current_stream()))
        machine.set_current_index(self._device.index)
        self._device.set_current_stream(self)
        return self

    def __exit__(self, *_):
        device_index, stream = self._outer.pop()
        self._device.set_current_stream(stream)
        self._device.machine.set_current_index(device_index)

    def _machine(self):
        """Return the machine, once all that was issued is in the stream."""
        current.check_alive(self._device.machine, "this stream")
        self._device.sink.settle()
        return self._device.machine

    def __repr__(self):
        return f"<sim.Stream {self.number} of {self._device.name}>"


class Event:
    """A mark in a stream that the host and other streams can wait for; two of them measure time.

    As in CUDA, waiting for an event that was never recorded returns at once, and an event may be
    recorded again; earlier waits still refer to the earlier mark.

    Parameters
    ----------
    enable_timing : bool
        Whether `elapsed_time` may be called; default False, as in `torch.cuda.Event`.
    blocking : bool
        Accepted for compatibility with `torch.cuda.Event`; it has no effect.
    interprocess, external : bool
        Must be False.

    Raises
    ------
    NotImplementedError
        If `interprocess` or `external` is True.

    Examples
    --------
    >>> import torch
    >>> import simgpu as sim
    >>> (device,) = sim.configure(1)
    >>> before, after = sim.Event(enable_timing=True), sim.Event(enable_timing=True)
    >>> before.record()
    >>> x = torch.ones(1000, 1000, device=device)
    >>> after.record()
    >>> after.synchronize()
    >>> before.elapsed_time(after) > 0
    True
    """

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        if interprocess or external:
            raise NotImplementedError("simulated events cannot be shared between processes")
        self.enable_timing = enable_timing
        self._moment = None
        self._device = None

    @property
    def device(self) -> torch.device | None:
        """The device on which the event was recorded, or None if it was not recorded yet."""
        return None if self._device is None else self._device.torch_device

    def record(self, stream: Stream | None = None) -> None:
        """Record the event after the work that is now in `stream` (default: the current one).

        Raises
        ------
        RuntimeError
            If the event was recorded on another device before.
        """
        if stream is None:
            stream = current.find_device(None).current_stream()
        machine = stream._machine()
        if self._device is not None and self._device is not stream._device:
            raise RuntimeError(
                f"Event device {self._device.name} does not match recording stream's device "
                f"{stream._device.name}; make one event for each device"
            )
        with machine.lock:
            self._device = stream._device
            self._moment = max(machine.host, stream.end)
            if races.active is not None:
                races.active.record(self, stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Make later work in `stream` (default: the current one) wait for the event."""
        if stream is None:
            stream = current.find_device(None).current_stream()
        stream.wait_event(self)

    def synchronize(self) -> None:
        """Make the host wait until the work before the event is done."""
        if self._moment is not None:
            self._machine().wait_until(self._moment, "synchronize event", (self,))

    def query(self) -> bool:
        """Return whether the work before the event is done; asking takes the host a microsecond."""
        return self._moment is None or _poll(self._machine(), self._moment, self)

    def elapsed_time(self, end_event: "Event") -> float:
        """Return the time from this event to `end_event`, in milliseconds.

        Raises
        ------
        ValueError
            If either was made without ``enable_timing=True`` or was not recorded.
        RuntimeError
            If they were recorded on two devices, or their work is not done: synchronise first.
        """
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._moment is None or end_event._moment is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if self._machine() is not end_event._machine():
            raise RuntimeError("The two events belong to different simulated machines.")
        if self._device is not end_event._device:
            raise RuntimeError(
                f"The events were recorded on {self._device.name} and {end_event._device.name}; "
                "CUDA measures the time between two events of one device only."
            )
        if max(self._moment, end_event._moment) > self._machine().host:
            raise RuntimeError("Both events must be completed: call synchronize() first.")
        return (end_event._moment - self._moment) * 1e3

    def _machine(self):
        current.check_alive(self._device.machine, "this event")
        return self._device.machine

    def __repr__(self):
        where = "not recorded" if self._device is None else f"of {self._device.name}"
        return f"<sim.Event {where}>"


POLL_SECONDS = 1e-6  # of host time, so that a loop that polls comes to an end


def _poll(machine, moment, mark):
    with machine.lock:
        machine.host += POLL_SECONDS
        if moment > machine.host:
            return False
        machine.wait_until(machine.host, marks=(mark,))  # now results may be read
        return True

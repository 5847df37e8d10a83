"""What a rank records while it profiles, beside the spans that every machine keeps."""

import sys
from dataclasses import dataclass, field

import torch

from simgpu.clock.current import current_machine
from simgpu.user_frame import is_user_code


@dataclass
class Range:
    """A part of a program that it has named: from when to when, in seconds.

    Attributes
    ----------
    pushed : bool
        Whether it ends by a call without a name, as NVTX's ``range_pop``.
    """

    name: str
    start: float
    pushed: bool = False
    end: float | None = None


@dataclass(frozen=True)
class Change:
    """An allocation, or, with negative bytes, the end of one.

    Attributes
    ----------
    time : float
        Seconds.
    address, num_bytes, total : int
        Of the block; and what is allocated then.
    """

    time: float
    address: int
    num_bytes: int
    total: int


@dataclass
class Options:
    """What a program asks the profiler for."""

    cpu: bool = True
    device: bool = True
    shapes: bool = False
    stack: bool = False
    memory: bool = False
    metadata: dict = field(default_factory=dict)


class Recording:
    """What one rank records, from its start until `stop`.

    Parameters
    ----------
    rank : Rank
    options : Options

    Attributes
    ----------
    machine, device
        Those of the rank.
    first, last : int
        Rows of the machine's trace: from `first` until before `last`.
    start, end : float
        Seconds on the rank's clock.
    ranges : list of Range
    changes : list of Change
        Of the device's memory.
    details : dict
        Row of the trace -> shapes of the inputs and the Python stack of what was launched there.
    """

    def __init__(self, rank, options):
        self.rank, self.options = rank, options
        self.machine = machine = current_machine()
        self.device = device = machine.devices[rank.index]
        self.first, self.last = len(machine.trace), None
        self.start, self.end = machine.host, None
        if machine.trace.joined is None:
            machine.trace.joined = {}
        self.ranges, self.changes, self.details, self._open = [], [], {}, []
        self._sink = None
        if options.shapes or options.stack:
            self._sink = device.sink = _Details(device, self)
        if options.memory:
            self._total = device.memory.allocated
            device.memory.watchers += (self._change,)

    def stop(self) -> None:
        """End it, and all ranges that are open."""
        device = self.device
        if self._sink is not None:
            device.take_out(self._sink)
        device.memory.watchers = tuple(w for w in device.memory.watchers if w != self._change)
        self.last, self.end = len(self.machine.trace), self.machine.host
        while self._open:
            self.close(self._open[-1].name)

    def open(self, name, pushed=False) -> None:
        """Begin a range."""
        self._open.append(Range(name, self.machine.host, pushed))
        self.ranges.append(self._open[-1])

    def close(self, name=None) -> None:
        """End the range of a name, or the innermost pushed one, if it began in the recording."""
        found = [one for one in self._open if (one.pushed if name is None else one.name == name)]
        if found:
            found[-1].end = self.machine.host
            self._open.remove(found[-1])

    def _change(self, address, num_bytes):
        self._total += num_bytes
        self.changes.append(Change(self.machine.host, address, num_bytes, self._total))


class _Details:
    """The sink that notes the shapes and the stack of what is launched, and passes it on."""

    def __init__(self, device, recording):
        self.device, self.recording, self.next = device, recording, device.sink

    @property
    def has_constants(self):
        """As the next sink has."""
        return self.next.has_constants

    def launch(
        self, name, flops=0, num_bytes=0, peak="float32", products=(), call=None, results=None
    ) -> None:
        """Take one kernel."""
        recording, row = self.recording, len(self.device.machine.trace)
        options = recording.options
        shapes = [_shape(value) for value in call.args] if options.shapes and call else []
        recording.details[row] = shapes, _stack() if options.stack else []
        self.next.launch(name, flops, num_bytes, peak, products, call, results)

    def settle(self, read=None) -> None:
        """Pass it on."""
        self.next.settle(read)


def _shape(value):
    return list(value.shape) if isinstance(value, torch.Tensor) else []


def _stack() -> list[str]:
    """Return the lines of the program that called, the innermost first."""
    frame, found = sys._getframe(1), []
    while frame is not None:
        code = frame.f_code
        if is_user_code(code.co_filename):
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return found

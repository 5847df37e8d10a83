"""The simulated machine: a host clock, devices with engines and streams, and the work on them.

Every method that reads or advances the clock holds the machine's lock, so several threads may use
one machine; their calls take effect in order of arrival. An interrupt (Ctrl-C) may come at any
call. The clock advances before the trace records it, so an interrupted operation may be missing
from the trace, but none is charged twice and no engine does two things at once.
"""

import functools
import os
import threading
import weakref
from collections import Counter
from typing import Protocol

import torch

from simgpu.clock.contention import Contention
from simgpu.clock.current import state
from simgpu.clock.engine import Engine, reserve
from simgpu.clock.memory import Memory
from simgpu.clock.streams import Stream
from simgpu.clock.trace import CPU_ENGINE, D2H, H2D, HOST, LAUNCH, OF_RANKS, P2P, SYNC, Trace
from simgpu.hardware.host import seconds_of
from simgpu.hardware.link import Link
from simgpu.hardware.specs import GPU
from simgpu.naming import device_type, spelling
from simgpu.races import detector as races

_graph_task = torch._C._current_graph_task_id  # of the backward pass that runs; -1: none
_is_grad_enabled = torch.is_grad_enabled  # in a backward pass: if Python runs what is recomputed


class _CurrentStream(threading.local):
    """The number of a device's current stream, which each thread has for itself, as in CUDA."""

    number = 0


class Sink(Protocol):
    """Takes the kernels of a device: the device itself, or an object in front of it.

    One in front sees every kernel before it starts. It passes it on, at once or later, to the sink
    that it has replaced, its `next`.

    Attributes
    ----------
    has_constants : bool
        Whether single numbers of the host are part of its kernels, and not copied.
    """

    has_constants: bool

    def launch(
        self, name, flops=0, num_bytes=0, peak="float32", products=(), call=None, results=None
    ) -> None:
        """Take one kernel.

        Parameters
        ----------
        name : str
            What it is called in the trace.
        flops, num_bytes, peak, products
            As for `GPU.seconds`.
        call, results : optional
            The operation whose kernel it is, with its arguments, and the tensors that it has made.
            Without `call`, only the bytes of a kernel are known, such as one that fills memory.
        """

    def settle(self, read=None) -> None:
        """Pass on what is held back: something needs the clock, a stream, or the memory.

        Parameters
        ----------
        read : str, optional
            What reads values on the host, if something does.
        """


class Device:
    """One simulated GPU: its engines, streams, memory and random numbers.

    Attributes
    ----------
    sink : Sink
        Where its kernels go: the device itself, which starts them, or what is to see them first.
    """

    has_constants = False

    def __init__(self, machine, index):
        self.machine = machine
        self.index = index
        self.gpu = machine.gpu  # its own, so that one can be slower than the others
        self.rank, self.row = None, index  # whose device it is, if a rank's; its row in the trace
        self.rename(index)
        self.cpp_device = torch.device("meta", index)  # its name inside PyTorch's C++
        self.compute, self.h2d, self.d2h = Engine(), Engine(), Engine()
        self.peer_in, self.peer_out = Engine(), Engine()
        self.urgent = self.compute  # runs the kernels of streams with priority
        self.contention = Contention()  # between collectives and kernels
        self.sink: Sink = self
        self.memory = Memory(index, machine.gpu, machine.lock)
        self.connections = None  # of a rank: those that NCCL has made
        self.generator = torch.Generator().manual_seed(state.seed)
        self.streams: list[Stream] = []
        self.default_stream = Stream.of(self)
        self.flops = Counter()  # of all kernels, by the peak at which they run
        self.part, self.kernels = "", Counter()  # of a step: which runs; how many kernels each had
        self.launches = Counter()  # of eager code, by what launches it: `BY_PYTHON`
        self.launch_seconds = None  # of each kernel of a graph that runs
        self._current = _CurrentStream()

    def as_rank(self, rank, local, gpu, connections, generator) -> None:
        """Make it the device of a rank, which has a name, a row and random numbers of its own.

        Parameters
        ----------
        rank, local : int
            The rank, and its number on its node, which is that of its device.
        gpu : GPU
            What the device is; a slow one differs from those of other ranks.
        connections : Connections
            Those that NCCL will make.
        generator : SeedAndOffset
            Its random numbers.
        """
        self.rank, self.row, self.gpu = rank, OF_RANKS + rank, gpu
        self.rename(local)
        self.name_row()
        self.urgent, self.connections = Engine(), connections
        self.generator, self.draw = generator, generator.draw

    def end_rank(self) -> None:
        """Name it by its index again, once its rank has ended."""
        self.rank = None
        self.rename(self.index)

    def rename(self, number) -> None:
        """Set the number in the device's name: its index or, in a rank, the local rank."""
        self.number, self.name = number, f"{spelling.name}:{number}"
        self.torch_device = torch.device(device_type(), number)

    def name_row(self) -> None:
        """Name the row of a rank's device in the trace by what the device is called now."""
        if self.rank is not None:
            self.machine.trace.name_row(self.row, f"rank {self.rank} {self.name}")

    def draw(self) -> torch.Generator:
        """Return the generator for the random numbers of one operation."""
        return self.generator

    def current_stream(self) -> Stream:
        """Return the stream on which this thread issues work for this device."""
        self.sink.settle()
        return self.stream

    @property
    def stream(self) -> Stream:
        """The same, for what does not need the work that a sink holds back."""
        return self.streams[self._current.number]

    def set_current_stream(self, stream: Stream) -> None:
        """Make `stream` the one on which this thread issues work for this device."""
        self.sink.settle()
        if races.active is not None:
            races.active.switch(self, stream)
        self._current.number = stream.number  # the stream itself would keep the machine alive

    def launch(
        self, name, flops=0, num_bytes=0, peak="float32", products=(), call=None, results=None
    ) -> None:
        """Issue a kernel on the current stream, as `Sink.launch` says; the host does not wait.

        The kernel starts when the host has issued it, all earlier work in its stream is done, and
        the compute engine is free for as long as it takes.
        """
        machine, stream = self.machine, self.streams[self._current.number]
        gpu = self.gpu
        seconds = gpu.seconds(flops, num_bytes, peak, products)
        backward = _graph_task() >= 0
        self.kernels[self.part or ("backward" if backward else "forward")] += 1
        overhead = self.launch_seconds
        if overhead is None:
            overhead = self._launch_eager(gpu, backward and not _is_grad_enabled())
        if flops:
            self.flops[peak] += flops
        with machine.lock:
            issued = machine.host
            now = machine.host = issued + overhead  # as `Machine.issue` does
            ready = stream.end if stream.end > now else now
            if ready < self.contention.until:
                beside = functools.partial(gpu.seconds_beside, flops, num_bytes, peak, products)
                start, seconds = self.contention.place(stream.compute, ready, beside, now)
            else:
                start = stream.compute.take(ready, seconds, now)
            stream.end = start + seconds
            machine.trace.add_kernel(
                machine.host_row, self.row, stream.number, name,
                issued, overhead, start, seconds, flops, num_bytes,
            )  # fmt: skip

    def _launch_eager(self, gpu, by_autograd) -> float:
        """Count a launch of eager code; return the host's seconds for it."""
        self.launches[by_autograd] += 1
        return seconds_of(gpu)[by_autograd]

    def settle(self, read=None) -> None:
        """Do nothing: the device starts each kernel at once."""

    def sinks(self):
        """Yield the sinks in front of the device, the first that sees a kernel first."""
        sink = self.sink
        while sink is not self:
            yield sink
            sink = sink.next

    def take_out(self, sink) -> None:
        """Take one of `sinks` out, wherever it stands."""
        before = next((one for one in self.sinks() if one.next is sink), None)
        if before is None:
            self.sink = sink.next
        else:
            before.next = sink.next

    def to_host(self, num_bytes, pinned=False, wait=True, reason=None) -> float:
        """Copy to the host on the current stream; return the time at which the copy ends.

        With `wait`, the host waits for it; `reason` is the name of that wait in the trace.
        """
        seconds = self.machine.link.host_seconds(num_bytes, pinned=pinned, to_host=True)
        label = f"copy {self.name} -> cpu"
        self.sink.settle(reason or label)
        end = self._copy(self.d2h, D2H, label, seconds, num_bytes)
        if wait:
            self.machine.wait_until(end, reason or f"wait for {label}", (self.current_stream(),))
        return end

    def from_host(self, num_bytes, pinned=False, non_blocking=False, reason=None) -> None:
        """Copy from the host on the current stream; the host waits as it does for CUDA.

        It does not wait for a non-blocking copy from pinned memory. From pageable memory it always
        waits; but after a non-blocking copy CUDA guarantees only that the memory has been *read*,
        not that the data has arrived.
        """
        seconds = self.machine.link.host_seconds(num_bytes, pinned=pinned, to_host=False)
        label = f"copy cpu -> {self.name}"
        end = self._copy(self.h2d, H2D, label, seconds, num_bytes)
        if not (pinned and non_blocking):
            marks = () if non_blocking else (self.current_stream(),)
            self.machine.wait_until(end, reason or f"wait for {label}", marks)

    def _copy(self, engine, lane, label, seconds, num_bytes):
        machine, stream = self.machine, self.current_stream()
        with machine.lock:
            ready = machine.issue(label, stream)
            start = reserve((engine,), ready, seconds, machine.host)
            stream.end = start + seconds
            machine.trace.add(self.row, lane, stream.number, label, start, seconds, 0, num_bytes)
            return stream.end

    def clear(self) -> None:
        """Free all engines and streams, and reset the memory peak."""
        for engine in (self.compute, self.urgent, self.h2d, self.d2h, self.peer_in, self.peer_out):
            engine.clear()
        self.contention.clear()
        for stream in self.streams:
            stream.end = 0.0
        self.flops.clear()
        self.kernels.clear()
        self.memory.forget_peak()


_machines = weakref.WeakSet()  # all that exist


def _renew_locks():
    """Replace the locks in a forked process: the thread that holds one does not exist there."""
    for machine in _machines:
        machine.lock = threading.RLock()
        for device in machine.devices:
            device.memory.lock = machine.lock


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_renew_locks)


class Machine:
    """`k` identical GPUs, one link model and a host clock that starts at 0 seconds."""

    def __init__(self, k: int, gpu: GPU, link: Link, numerics: bool):
        self.gpu, self.link, self.numerics = gpu, link, numerics
        self.routing = None  # which experts tokens go to, if only shapes are kept
        self.alive = True  # while it is the machine in use
        self.set_aside = False  # while another machine is in use for a block
        self.lock = threading.RLock()
        self.host = 0.0
        self.host_row = HOST  # in the trace
        self.trace = Trace()
        self.pending: list = []  # copies to the host that it has not waited for
        self.devices = [Device(self, i) for i in range(k)]
        self.default_index = 0  # of the current device in new threads
        self._current = threading.local()  # each thread has its own current device
        _machines.add(self)

    def current_index(self) -> int:
        """Return the number of this thread's current device."""
        return getattr(self._current, "index", self.default_index)

    def set_current_index(self, index: int) -> None:
        """Make device number `index` this thread's current one."""
        self._current.index = index

    def copy_peer(self, source, target, num_bytes) -> float:
        """Issue a copy between GPUs after the work in both current streams; both wait for it."""
        label = f"copy {source.name} -> {target.name}"
        with self.lock:
            from_stream, to_stream = source.current_stream(), target.current_stream()
            ready = max(self.issue(label, from_stream), to_stream.end)
            if self.link.peer:
                seconds = self.link.peer_seconds(num_bytes)
                lanes = (source.peer_out, target.peer_in)
                start = reserve(lanes, ready, seconds, self.host)
                self.trace.add(
                    source.row, P2P, from_stream.number, label, start, seconds, 0, num_bytes
                )
                end = start + seconds
            else:
                end = self._copy_staged(source, target, label, ready, num_bytes)
            from_stream.end = to_stream.end = end
            return end

    def _copy_staged(self, source, target, label, ready, num_bytes):
        """Copy through pinned host memory; the upload starts one chunk after the download."""
        lead, seconds = self.link.staging(num_bytes)
        start = reserve((source.d2h,), ready, seconds, self.host)
        number = source.current_stream().number
        self.trace.add(source.row, D2H, number, label, start, seconds, 0, num_bytes)
        start = reserve((target.h2d,), start + lead, seconds, self.host)
        number = target.current_stream().number
        receive = f"receive {source.name} -> {target.name}"
        self.trace.add(target.row, H2D, number, receive, start, seconds, 0, num_bytes)
        return start + seconds

    def issue(self, name, stream, overhead=None):
        """Charge the host for one launch; return the earliest start that `stream` allows.

        It takes `overhead` seconds; None: those of a kernel.
        """
        start, overhead = self.host, self.gpu.launch_overhead if overhead is None else overhead
        self.host = start + overhead
        self.trace.add(self.host_row, LAUNCH, stream.number, name, start, overhead)
        return max(self.host, stream.end)

    def wait_until(self, moment: float, name="synchronize", marks=()) -> None:
        """Make the host wait; copies to the host that have ended by then become readable.

        `marks` are the streams and events that the program waits for; race detection counts no
        others.
        """
        with self.lock:
            if races.active is not None:
                races.active.host_waits(marks)
            if moment > self.host:
                start, self.host = self.host, moment
                self.trace.add(self.host_row, SYNC, 0, name, start, moment - start)
            if self.pending:
                for copy in self.pending:
                    if copy.end <= self.host:
                        copy.fill()
                self.pending = [copy for copy in self.pending if copy.end > self.host]

    def compute_on_host(self, name, seconds, flops=0, num_bytes=0) -> None:
        """Keep the host busy for `seconds` with work of its own."""
        with self.lock:
            start = self.host
            self.host = start + seconds
            self.trace.add(self.host_row, CPU_ENGINE, 0, name, start, seconds, flops, num_bytes)

    def reset(self) -> None:
        """Wait for everything, then set the clock to 0 and clear the trace and the peaks."""
        with self.lock:
            for device in self.devices:
                device.sink.settle()
            streams = [stream for device in self.devices for stream in device.streams]
            self.wait_until(max(stream.end for stream in streams), marks=streams)
            for device in self.devices:
                device.clear()
            self.trace.clear()
            self.host = 0.0

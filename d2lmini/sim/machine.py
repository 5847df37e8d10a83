"""The simulated machine: a host clock, devices with engines and streams, and what moves them.

Every method that reads or moves the clock holds the machine's lock, so several threads may use
one machine; what they do then happens in the order of arrival.
"""

import itertools
import threading

import torch

from d2lmini.sim import races
from d2lmini.sim.engine import Engine, reserve
from d2lmini.sim.hardware import GPU, Link
from d2lmini.sim.memory import Memory
from d2lmini.sim.naming import NAME, device_type
from d2lmini.sim.streams import Stream
from d2lmini.sim.trace import COMPUTE, CPU_ENGINE, D2H, H2D, HOST, LAUNCH, P2P, SYNC, Trace

DEFAULT_SEED = 67280421310721  # PyTorch's own, where nobody has called torch.manual_seed
_state = {"machine": None, "seed": DEFAULT_SEED}
_local = threading.local()  # current device and streams are per thread, as in CUDA
_serials = itertools.count()


class Device:
    """One simulated GPU: its engines, streams, memory and random numbers."""

    def __init__(self, machine, index):
        self.machine = machine
        self.index = index
        self.name = f"{NAME}:{index}"
        self.torch_device = torch.device(device_type(), index)
        self.cpp_device = torch.device("meta", index)  # its name inside PyTorch's C++
        self.compute, self.h2d, self.d2h = Engine(), Engine(), Engine()
        self.peer_in, self.peer_out = Engine(), Engine()
        self.memory = Memory(index, machine.gpu, machine.lock)
        self.generator = torch.Generator().manual_seed(_state["seed"])
        self.streams: list[Stream] = []
        self.default_stream = Stream._new(self)

    def current_stream(self) -> Stream:
        """Return the stream on which this thread issues work for this device."""
        return _local.__dict__.get((self.machine.serial, self.index), self.default_stream)

    def set_current_stream(self, stream: Stream) -> None:
        """Make `stream` the one on which this thread issues work for this device."""
        if races.active is not None:
            races.active.switch(self, stream)
        _local.__dict__[self.machine.serial, self.index] = stream

    def clear(self) -> None:
        """Make all engines and streams free, and forget the peak."""
        for engine in (self.compute, self.h2d, self.d2h, self.peer_in, self.peer_out):
            engine.clear()
        for stream in self.streams:
            stream.end = 0.0
        self.memory.peak = self.memory.allocated


class Machine:
    """`k` equal GPUs, one link model and a host clock that starts at 0 seconds."""

    def __init__(self, k: int, gpu: GPU, link: Link, numerics: bool):
        self.gpu, self.link, self.numerics = gpu, link, numerics
        self.serial = next(_serials)
        self.alive = True  # until another machine takes its place
        self.lock = threading.RLock()
        self.host = 0.0
        self.trace = Trace()
        self.shapes: dict = {}  # results and costs by shapes, where only shapes are kept
        self.pending: list = []  # copies to the host that nobody has waited for
        self.devices = [Device(self, i) for i in range(k)]

    def current_index(self) -> int:
        """Return the number of this thread's current device."""
        return _local.__dict__.get(self.serial, 0)

    def set_current_index(self, index: int) -> None:
        """Make device number `index` this thread's current one."""
        _local.__dict__[self.serial] = index

    def launch(self, device, name, seconds, flops=0, num_bytes=0) -> None:
        """Issue a kernel of `seconds` on the current stream; the host goes on at once."""
        with self.lock:
            ready = self._issue(name, stream := device.current_stream())
            compute = device.compute
            start = compute.earliest(ready, seconds)
            compute.book(start, start + seconds, self.host)
            stream.end = start + seconds
            self.trace.add(
                device.index, COMPUTE, stream.number, name, start, seconds, flops, num_bytes
            )

    def copy_to_host(self, device, num_bytes, pinned, name="cpu") -> float:
        """Issue a copy to the host on the current stream; return when it will have ended."""
        seconds = self.link.host_seconds(num_bytes, pinned=pinned, to_host=True)
        label = f"copy {device.name} -> {name}"
        return self._copy(device, device.d2h, D2H, label, seconds, num_bytes)

    def copy_to_device(self, device, num_bytes, pinned, name="cpu") -> float:
        """Issue a copy from the host on the current stream; return when it will have ended."""
        seconds = self.link.host_seconds(num_bytes, pinned=pinned, to_host=False)
        label = f"copy {name} -> {device.name}"
        return self._copy(device, device.h2d, H2D, label, seconds, num_bytes)

    def _copy(self, device, engine, lane, label, seconds, num_bytes):
        with self.lock:
            ready = self._issue(label, stream := device.current_stream())
            start = reserve((engine,), ready, seconds, self.host)
            stream.end = start + seconds
            self.trace.add(device.index, lane, stream.number, label, start, seconds, 0, num_bytes)
            return stream.end

    def copy_peer(self, source, target, num_bytes) -> float:
        """Issue a copy between GPUs, after both sides' current streams; both wait for it."""
        label = f"copy {source.name} -> {target.name}"
        with self.lock:
            from_stream, to_stream = source.current_stream(), target.current_stream()
            ready = max(self._issue(label, from_stream), to_stream.end)
            if self.link.peer:
                seconds = self.link.peer_seconds(num_bytes)
                lanes = (source.peer_out, target.peer_in)
                start = reserve(lanes, ready, seconds, self.host)
                self.trace.add(
                    source.index, P2P, from_stream.number, label, start, seconds, 0, num_bytes
                )
                end = start + seconds
            else:
                end = self._copy_staged(source, target, label, ready, num_bytes)
            from_stream.end = to_stream.end = end
            return end

    def _copy_staged(self, source, target, label, ready, num_bytes):
        """Down to pinned host memory and up again, the way up one chunk behind the way down."""
        head, way = self.link.staging(num_bytes)
        start = reserve((source.d2h,), ready, way, self.host)
        number = source.current_stream().number
        self.trace.add(source.index, D2H, number, label, start, way, 0, num_bytes)
        start = reserve((target.h2d,), start + head, way, self.host)
        number = target.current_stream().number
        receive = f"receive {source.name} -> {target.name}"
        self.trace.add(target.index, H2D, number, receive, start, way, 0, num_bytes)
        return start + way

    def _issue(self, name, stream):
        """Charge the host for one launch; return the earliest start on `stream`."""
        overhead = self.gpu.launch_overhead
        self.trace.add(HOST, LAUNCH, stream.number, name, self.host, overhead)
        self.host += overhead
        return max(self.host, stream.end)

    def wait_until(self, moment: float, name="synchronize", marks=()) -> None:
        """Let the host wait; copies to the host that have ended by then become readable.

        `marks` are the streams and events that it asks about: what it waits for by intention.
        """
        with self.lock:
            if races.active is not None:
                races.active.host_waits(marks)
            if moment > self.host:
                self.trace.add(HOST, SYNC, 0, name, self.host, moment - self.host)
                self.host = moment
            if self.pending:
                done = [copy for copy in self.pending if copy.end <= self.host]
                self.pending = [copy for copy in self.pending if copy.end > self.host]
                for copy in done:
                    copy.fill()

    def compute_on_host(self, name, seconds, flops=0, num_bytes=0) -> None:
        """Keep the host busy for `seconds` with work of its own."""
        with self.lock:
            self.trace.add(HOST, CPU_ENGINE, 0, name, self.host, seconds, flops, num_bytes)
            self.host += seconds

    def reset(self) -> None:
        """Wait for everything, then set the clock to 0 and forget trace and peaks."""
        with self.lock:
            streams = [stream for device in self.devices for stream in device.streams]
            self.wait_until(max(stream.end for stream in streams), marks=streams)
            self.host = 0.0
            self.trace.clear()
            for device in self.devices:
                device.clear()

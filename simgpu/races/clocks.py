"""Logical clocks: which operations of other streams must be done when an operation begins.

They follow from the program alone, not from simulated times. Work is ordered by its stream; by
events and ``wait_stream``; by the host's waits for a stream, with respect to what the host issues
afterwards; and by copies between GPUs, for which both current streams wait. A backward operation
runs in the stream of its forward operation; that stream and the one in which ``backward`` was
called wait for each other, as in PyTorch on CUDA. A collective runs in a stream of its group, after
the work that was in the current stream when it was called; its ``wait()`` is a wait for an event.
"""

import threading
from bisect import bisect_right
from weakref import WeakKeyDictionary

import torch

HOST = "host"  # in a clock: how often the host has waited


class Clocks:
    """The vector clocks of streams, events and the host.

    A clock maps each stream to the number of its operations that are certain to be done. All
    methods are called under the machine's lock, except `switch`, whose data belongs to one thread.
    """

    def __init__(self):
        self.host = {HOST: 0}
        self.clocks = WeakKeyDictionary()  # of streams and events
        self.switches = {}  # (thread, device): first autograd nodes, and the streams from there on
        self.callers = {}  # (thread, device): the last backward pass, and the stream of the call

    def clock(self, stream):
        """Return the clock of a stream, which includes all waits of the host so far."""
        clock = self.clocks.setdefault(stream, {})
        if clock.get(HOST, 0) < self.host[HOST]:
            merge(clock, self.host)
        return clock

    def record(self, event, stream):
        """Record `event` after the work in `stream`."""
        self.clocks[event] = dict(self.clock(stream))

    def wait(self, stream, mark):
        """Order later work in `stream` after `mark`: an event, or the work now in a stream."""
        merge(self.clock(stream), self.clocks.get(mark, {}))

    def host_waits(self, marks):
        """Order all work issued from now on after `marks`, which are streams and events."""
        for mark in marks:
            merge(self.host, self.clocks.get(mark, {}))
        self.host[HOST] += 1

    def assume_done(self, mark, stream):
        """Order all work issued from now on after the operation of `stream` that `mark` follows.

        Unlike `host_waits`, this says nothing of the operations before it.
        """
        self.host[stream] = max(self.host.get(stream, 0), self.clocks[mark].get(stream, 0))
        self.host[HOST] += 1

    def switch(self, device, stream):
        """Record that `stream` becomes this thread's current stream."""
        numbers, streams = self.switches.setdefault(
            (threading.current_thread(), device), ([0], [device.stream])
        )
        numbers.append(torch.autograd._get_sequence_nr())  # of the next autograd node
        streams.append(stream)

    def stream_for(self, device):
        """Return the stream in which CUDA would run an operation issued now for `device`."""
        current = device.stream
        task = torch._C._current_graph_task_id()
        if task < 0:
            return current
        key = threading.current_thread(), device
        if self.callers.get(key, (None,))[0] != task:
            self.callers[key] = task, current
        node = torch._C._current_autograd_node()
        if self.callers[key][1] is not current or node is None or key not in self.switches:
            return current  # a hook has set a stream, or there is only one
        numbers, streams = self.switches[key]
        return streams[bisect_right(numbers, node._sequence_nr()) - 1]

    def advance(self, device, peer=None):
        """Count one operation issued now for `device`; return its stream and its clock.

        A copy to another device, `peer`, synchronises the streams of both.
        """
        stream = self.stream_for(device)
        others = {device.stream}
        if peer is not None:
            others |= {peer.stream, self.stream_for(peer)}
        others.discard(stream)
        clock = self.clock(stream)
        for other in others:
            merge(clock, self.clock(other))
        clock[stream] = clock.get(stream, 0) + 1
        for other in others:
            merge(self.clock(other), clock)
        return stream, clock

    def advance_communication(self, device, stream):
        """Count one operation of `stream` that begins after the current stream of `device`.

        Return the clock of `stream`.
        """
        clock = self.clock(stream)
        merge(clock, self.clock(self.stream_for(device)))
        clock[stream] = clock.get(stream, 0) + 1
        return clock


def merge(clock, other):
    """Advance `clock` to the maximum of itself and `other`, stream by stream."""
    for stream, tick in other.items():
        if clock.get(stream, 0) < tick:
            clock[stream] = tick

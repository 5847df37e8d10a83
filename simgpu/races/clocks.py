"""Logical clocks: which operations of other streams must be over when one begins.

Only the program counts here, not the times of this machine. What orders work: the stream it is in;
events and ``wait_stream``; a wait of the host for a stream, for what the host issues afterwards; a
copy between GPUs, for which both current streams wait. A backward operation runs in the stream of
its forward operation, and that stream and the one in which ``backward`` was called wait for each
other, as PyTorch does it on CUDA.
"""

import threading
from bisect import bisect_right
from weakref import WeakKeyDictionary

import torch

HOST = "host"  # in a clock: how often the host has waited


class Clocks:
    """The clocks of streams, events and the host.

    A clock says, for each stream, how many of its operations are sure to be over. All methods are
    called under the machine's lock, except `switch`, which notes what belongs to one thread.
    """

    def __init__(self):
        self.host = {HOST: 0}
        self.clocks = WeakKeyDictionary()  # of streams and events
        self.switches = {}  # (thread, device): first autograd nodes, and the streams from there on
        self.callers = {}  # (thread, device): the last backward pass, and the stream that called it

    def clock(self, stream):
        """Return a stream's clock for what is now issued: the host's waits come before it."""
        clock = self.clocks.setdefault(stream, {})
        if clock.get(HOST, 0) < self.host[HOST]:
            merge(clock, self.host)
        return clock

    def record(self, event, stream):
        """Put `event` behind the work in `stream`."""
        self.clocks[event] = dict(self.clock(stream))

    def wait(self, stream, mark):
        """Let later work in `stream` come after `mark`: an event, or what is now in a stream."""
        merge(self.clock(stream), self.clocks.get(mark, {}))

    def host_waits(self, marks):
        """Let all that is issued from now on come after `marks`, streams and events."""
        for mark in marks:
            merge(self.host, self.clocks.get(mark, {}))
        self.host[HOST] += 1

    def switch(self, device, stream):
        """Take note that `stream` is about to become this thread's current one."""
        numbers, streams = self.switches.setdefault(
            (threading.current_thread(), device), ([0], [device.current_stream()])
        )
        numbers.append(torch.autograd._get_sequence_nr())  # of the next node of the graph
        streams.append(stream)

    def stream_for(self, device):
        """Return the stream in which CUDA would run what is now issued for `device`."""
        current = device.current_stream()
        task = torch._C._current_graph_task_id()
        if task < 0:
            return current
        key = threading.current_thread(), device
        if self.callers.get(key, (None,))[0] != task:
            self.callers[key] = task, current
        node = torch._C._current_autograd_node()
        if self.callers[key][1] is not current or node is None or key not in self.switches:
            return current  # a hook has chosen a stream, or there is no other
        numbers, streams = self.switches[key]
        return streams[bisect_right(numbers, node._sequence_nr()) - 1]

    def advance(self, device, peer=None):
        """Count one operation that is now issued for `device`; return its stream and its clock.

        A copy to another device, `peer`, holds the streams of both.
        """
        stream = self.stream_for(device)
        held = {device.current_stream()}
        if peer is not None:
            held |= {peer.current_stream(), self.stream_for(peer)}
        held.discard(stream)
        clock = self.clock(stream)
        for other in held:
            merge(clock, self.clock(other))
        clock[stream] = clock.get(stream, 0) + 1
        for other in held:
            merge(self.clock(other), clock)
        return stream, clock


def merge(clock, other):
    """Let `clock` come after all that `other` comes after, too."""
    for stream, tick in other.items():
        if clock.get(stream, 0) < tick:
            clock[stream] = tick

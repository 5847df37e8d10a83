"""The activities of a recording, as Kineto names them: operations, calls, kernels, and copies."""

from collections import defaultdict, deque
from dataclasses import dataclass, field

import torch

from simgpu.clock.trace import COMM, ENGINES

KERNEL, MEMCPY, OPERATION, CALL, ANNOTATION = (
    "kernel", "gpu_memcpy", "cpu_op", "cuda_runtime", "user_annotation",
)  # fmt: skip
ON_DEVICE = (KERNEL, MEMCPY)
_COPIES = {"h2d": "Memcpy HtoD", "d2h": "Memcpy DtoH", "p2p": "Memcpy PtoP"}
_MESSAGES = ("send", "recv")
_KERNELS = {"barrier": "all_reduce", "all_to_all": "send_recv"} | dict.fromkeys(
    _MESSAGES, "send_recv"
)


@dataclass
class Activity:
    """One line of a profile.

    Attributes
    ----------
    kind, name : str
        Its category, and what it is called.
    start, end : float
        Seconds.
    number, link : int
        Its own number; and that of the operation that has launched it, or 0.
    span : Span, optional
        Whose activity it is.
    shapes, stack : list
        Of an operation, if they were recorded.
    sequence : int
        Of a collective: how many the rank has had in its group before it.
    """

    kind: str
    name: str
    start: float
    end: float
    number: int
    link: int = 0
    span: object = None
    shapes: list = field(default_factory=list)
    stack: list = field(default_factory=list)
    sequence: int = 0


class Activities:
    """Makes the activities of a recording.

    Attributes
    ----------
    found : list of Activity
        All of them; what encloses another stands before it.
    """

    def __init__(self, recording):
        self._recording, self.found = recording, []
        self._operation = 0  # the number of the last one: what follows on the device is its work
        self._waiting = defaultdict(deque)  # queue of collectives -> operations that launched one
        for one in recording.ranges:
            self._add(ANNOTATION, one.name, one.start, one.end)
        host, device = recording.machine.host_row, recording.device.row
        trace, groups = recording.machine.trace, defaultdict(int)
        self._joined = trace.joined
        for row, span in trace.rows((host, device), recording.last):
            sequence = groups[span.group]
            groups[span.group] += span.engine == ENGINES[COMM] and bool(span.collective)
            if row >= recording.first:
                self._take(row, span, sequence)

    def _add(self, kind, name, start, end, link=0, **rest):
        self.found.append(Activity(kind, name, start, end, len(self.found) + 1, link, **rest))
        return len(self.found)

    def _take(self, row, span, sequence):
        take = getattr(self, f"_{span.engine}", self._copy)
        take(row, span, sequence)

    def _launch(self, row, span, _):
        shapes, stack = self._recording.details.get(row, ((), ()))
        self._operation = number = self._add(
            OPERATION, operation_name(span.name), span.start, span.end, span=span,
            shapes=list(shapes), stack=list(stack),
        )  # fmt: skip
        self._add(CALL, call_name(span.name), span.start, span.end, number, span=span)
        self._waiting[_queue(span)].append(number)

    def _cpu(self, row, span, _):
        self._add(OPERATION, span.name, span.start, span.end, span=span)

    _loader = _cpu

    def _sync(self, row, span, _):
        self._add(CALL, wait_name(span.name), span.start, span.end, span=span)

    def _compute(self, row, span, _):
        self._add(KERNEL, span.name, span.start, span.end, self._operation, span=span)

    def _copy(self, row, span, _):
        name = _COPIES.get(span.engine, span.name)
        self._add(MEMCPY, name, span.start, span.end, self._operation, span=span)

    def _comm(self, row, span, sequence):
        waiting = self._waiting[_queue(span)]
        link = waiting.popleft() if waiting else 0
        if link:
            operation = self.found[link - 1]
            operation.name = f"nccl:{operation.name}"
        name = kernel_of_collective(span.collective or span.name)
        start = self._joined.get(row, span.start)  # from then on NCCL's kernel waits for the others
        self._add(KERNEL, name, start, span.end, link, span=span, sequence=sequence)


def _queue(span):
    """Return in which order a collective runs: in that of its stream, among those of its name."""
    return ("message" if span.name in _MESSAGES else span.name), span.stream


def operation_name(name) -> str:
    """Return the operation of the host that launches what is called `name` on the device."""
    if name.startswith("copy "):
        return "aten::copy_"
    return f"aten::{name}" if hasattr(torch.ops.aten, name) else name


def call_name(name) -> str:
    """Return the call of CUDA by which it is launched."""
    return "cudaMemcpyAsync" if name.startswith("copy ") else "cudaLaunchKernel"


def wait_name(name) -> str:
    """Return the call of CUDA in which the host waits."""
    own = {"synchronize": "cudaDeviceSynchronize", "synchronize event": "cudaEventSynchronize"}
    return own.get(name, "cudaStreamSynchronize")


def kernel_of_collective(name) -> str:
    """Return the name of NCCL's kernel, which tools know collectives by.

    Examples
    --------
    >>> kernel_of_collective("reduce_scatter"), kernel_of_collective("send")
    ('ncclDevKernel_ReduceScatter', 'ncclDevKernel_SendRecv')
    """
    name = _KERNELS.get(name, name)
    return "ncclDevKernel_" + "".join(word.capitalize() for word in name.split("_"))

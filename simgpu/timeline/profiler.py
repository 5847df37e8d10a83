"""Read traces of PyTorch's profiler: which events are work, on which device, engine and stream.

Categories and arguments are those of Kineto, PyTorch's tracer: of PyTorch 1.8 ("Operator",
"Runtime", "Kernel", ...) and of later versions ("cpu_op", "cuda_runtime", "kernel", ...), on GPUs
from NVIDIA and AMD ("cuda_runtime"), Intel ("xpu_runtime"), MTIA and others ("privateuse1_runtime",
or the vendor's own word). Events that are no work of their own are skipped: annotations, Python
functions, marks of synchronisation on a device, counters, overhead.
"""

import re
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from simgpu.timeline.collectives import collective_of, count, host_library, library_of
from simgpu.timeline.files import clean

EPOCH = 1e14  # larger times are microseconds since 1970, smaller ones relative to the file's base

_DEVICE_WORK = ("kernel", "memcpy", "memset")
# PyTorch calls AMD's GPUs "cuda" as well.
_DEVICE_TYPES = {"hip": "cuda", "privateuse1": "privateuseone"}
_BLOCKS = re.compile(r"Synchronize|urQueueFinish|urEventWait\b")
# "HtoD" or "H2D"; "HostToDevice"; "M" is the host's memory in Intel's traces.
_DIRECTION = re.compile(
    r"(?:\b|Copy|Memcpy)([HMDASP])(?:ost|evice)?(?:[tT]o|2)([HMDASP])(?:ost|evice)?\b"
)
_HOST_MEMORY = "HM"
_ROUNDING = 1  # microsecond: the resolution of traces before PyTorch 2.4


@dataclass(slots=True)
class Activity:
    """One piece of work: where it ran, its start and its duration, in microseconds.

    `base` is the name of its lane, to which a stream or thread number may be added.
    """

    device: str
    engine: str
    base: str
    stream: int
    name: str
    start: float
    duration: float
    bytes: int = 0
    collective: str = ""
    group: str = ""
    ranks: int = 0


def activities(trace):
    """Return the work in a trace of PyTorch's profiler.

    Only the outermost of nested host operations are kept. The host's threads are numbered from 0,
    the main thread.

    Raises
    ------
    ValueError
        If an event of a known category has no valid name, time, device or stream.

    Warns
    -----
    UserWarning
        If events are left out because the profiler did not record their start or end.
    """
    device_type = _device_type(trace.events)
    on_devices, threads, unfinished = [], {}, []
    for event in trace.events:
        work = _work(event)
        if work is None:
            continue
        activity = _activity(trace, event, work, device_type)
        if activity.duration < 0:
            unfinished.append(activity)
        elif work in _DEVICE_WORK:
            on_devices.append(activity)
        else:
            threads.setdefault(_thread(trace, event), []).append(activity)
    found = on_devices + _number_threads(threads)
    if max((a.start for a in found), default=0) > EPOCH:
        unfinished += [a for a in found if a.start <= 0]
        found = [a for a in found if a.start > 0]
    if unfinished:
        warnings.warn(
            f"{trace.name}: left out {len(unfinished)} events whose start or end the profiler did "
            f"not record, the first of them {unfinished[0].name[:80]!r}",
            stacklevel=4,
        )
    return found


def models(trace):
    """Return the models of the devices, ``{"cuda:0": "NVIDIA H100"}``, that the trace names."""
    device_type = _device_type(trace.events)
    listed = trace.fields.get("deviceProperties")
    return {
        f"{device_type}:{entry['id']}": clean(entry["name"][:80])
        for entry in (listed if isinstance(listed, list) else ())
        if isinstance(entry, dict)
        and type(entry.get("id")) is int
        and isinstance(entry.get("name"), str)
    }


def _work(event):
    """Return the type of work of an event; None if it is no work."""
    category = event.get("cat")
    work = _work_of(category) if isinstance(category, str) else None
    name = event.get("name")
    if work == "annotation":  # work only if it is the only record of a collective
        return "comm" if isinstance(name, str) and host_library(name) else None
    if work == "op" and isinstance(name, str):
        if name.startswith("ProfilerStep#"):  # PyTorch 1.8 records it as an operation
            return None
        return "comm" if host_library(name) else "op"
    return work


@lru_cache
def _work_of(category):
    category = category.lower()
    if category in ("cpu_op", "operator"):
        return "op"
    if category in ("runtime", "hpu_op") or category.endswith(("_runtime", "_driver")):
        return "call"
    if category == "mtia_ccp_events":
        return "kernel"
    if category == "collective_comm":
        return "comm"
    if category == "user_annotation":
        return "annotation"
    return next((work for work in _DEVICE_WORK if category.endswith(work)), None)


def _device_type(events):
    """Return PyTorch's name of the devices of a trace, from the runtime calls of the host."""
    vendors = Counter()
    for event in events:
        category = event.get("cat")
        if isinstance(category, str) and (
            _work_of(category) == "call" or category == "mtia_ccp_events"
        ):
            vendor, _, rest = category.lower().partition("_")
            if rest:
                vendors[vendor] += 1
    vendor = max(vendors, key=vendors.get, default="cuda")
    vendor = _DEVICE_TYPES.get(vendor, vendor)
    return vendor if re.fullmatch(r"(?!sim)[a-z][a-z0-9]{0,15}", vendor) else "gpu"


def _activity(trace, event, work, device_type):
    name, args = trace.text(event, "name", event.get("name")), trace.args(event)
    times = trace.number(event, "ts"), trace.number(event, "dur")
    if work not in _DEVICE_WORK:
        engine = ("sync" if _BLOCKS.search(name) else "launch") if work == "call" else work
        engine = "cpu" if work == "op" else engine
        base = (host_library(name) or library_of(name) or "comm") if work == "comm" else engine
        return Activity("host", engine, base, 0, name, *times)
    device = f"{device_type}:{_device(trace, event, args)}"
    stream = trace.integer(event, "stream", args.get("stream", event.get("tid")))
    if work == "kernel":
        library = library_of(name, args)
        if library:
            return Activity(device, "comm", library, stream, name, *times, *collective_of(args))
    engine = _copy_engine(name, args) if work == "memcpy" else "compute"
    return Activity(device, engine, engine, stream, name, *times, count(args.get("bytes")))


def _device(trace, event, args):
    """Return the index of the device; a copy between devices has no argument "device"."""
    places = (args.get("device"), args.get("inDevice"), event.get("pid"))
    return trace.integer(event, "device", next((p for p in places if p is not None), None))


def _copy_engine(name, args):
    """Return the engine of a copy.

    A copy within one device counts as compute: it uses the device's memory bandwidth, as kernels
    do, and runs in order with the kernels of its stream.
    """
    source, target = args.get("fromDevice"), args.get("toDevice")
    if source is not None and target is not None and source != target:
        return "p2p"
    found = _DIRECTION.search(name)
    if not found:
        return "copy"
    if "P" in found.groups():
        return "p2p"
    host = [letter in _HOST_MEMORY for letter in found.groups()]
    return {(1, 0): "h2d", (0, 1): "d2h", (0, 0): "compute"}.get(tuple(host), "copy")


def _thread(trace, event):
    pid, tid = event.get("pid"), event.get("tid")
    for field, value in (("pid", pid), ("tid", tid)):
        if type(value) not in (int, str):
            raise trace.invalid_field(event, field, value)
    return str(pid), str(tid)


def _number_threads(threads):
    """Return the work of all threads, with the number of the thread as `stream`."""
    order = sorted(
        threads,
        key=lambda thread: (thread[0] != thread[1], min(a.start for a in threads[thread]), thread),
    )
    found = []
    for number, thread in enumerate(order):
        operations = [a for a in threads[thread] if a.engine == "cpu"]
        rest = [a for a in threads[thread] if a.engine != "cpu"]
        for activity in rest + _outermost(operations):
            activity.stream = number
            found.append(activity)
    return found


def _outermost(operations):
    """Return the operations of a thread that are not nested in another one."""
    end, kept = float("-inf"), []
    for operation in sorted(operations, key=lambda a: (a.start, -a.duration)):
        its_end = operation.start + operation.duration
        if operation.start >= end or its_end > end + _ROUNDING:
            kept.append(operation)
            end = max(end, its_end)
    return kept

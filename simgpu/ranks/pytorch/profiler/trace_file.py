"""Traces as Kineto writes them: for Perfetto, TensorBoard, and HolisticTraceAnalysis."""

import json

from simgpu.ranks.pytorch.profiler.activities import (
    ANNOTATION,
    CALL,
    MEMCPY,
    ON_DEVICE,
    OPERATION,
)

_PID, _THREAD = 1, 1  # of the host: a rank is a process with one thread
_GROUP = "default_pg"
_DEFAULT_STREAM = 7  # as Kineto numbers it; HolisticTraceAnalysis leaves out a stream 0
_NAMES = {
    "all_reduce": "allreduce", "all_gather": "_allgather_base",
    "reduce_scatter": "_reduce_scatter_base",
}  # fmt: skip


def write(path, recording, activities) -> None:
    """Write a trace.

    Parameters
    ----------
    path : str
    recording : Recording
    activities : list of Activity
        Those of the recording that are shown.
    """
    events = [_event(recording, one) for one in activities]
    events += list(_flows(activities, events))
    if recording.options.cpu:
        events += [_memory(recording, change) for change in recording.changes]
    data = {
        "schemaVersion": 1,
        "deviceProperties": [_properties(recording)],
        **{key: json.loads(value) for key, value in recording.options.metadata.items()},
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
        "traceEvents": [*_names(recording), *events],
        "traceName": str(path),
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)


def _properties(recording):
    gpu, number = recording.device.gpu, recording.rank.local
    return {"id": number, "name": gpu.name, "totalGlobalMem": int(gpu.memory)}


def stream(number) -> int:
    """Return the number that Kineto has for the stream of a device."""
    return _DEFAULT_STREAM + number


def _names(recording):
    """Return the events that name processes and threads."""
    number = recording.rank.local
    streams = range(len(recording.device.streams))
    found = [("process_name", _PID, 0, {"name": "python"})]
    found += [("process_labels", _PID, 0, {"labels": "CPU"})]
    found += [("thread_name", _PID, _THREAD, {"name": f"rank {recording.rank.number}"})]
    found += [("process_name", _pid(number), 0, {"name": "python"})]
    found += [("process_labels", _pid(number), 0, {"labels": f"GPU {number}"})]
    found += [
        ("thread_name", _pid(number), stream(s), {"name": f"stream {stream(s)}"}) for s in streams
    ]
    return [
        {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": args}
        for what, pid, tid, args in found
    ]


def _pid(number):
    return number if number != _PID else number + 1000  # not that of the host


def _event(recording, one):
    on_device, number = one.kind in ON_DEVICE, recording.rank.local
    return {
        "ph": "X", "cat": one.kind, "name": one.name,
        "pid": _pid(number) if on_device else _PID,
        "tid": stream(one.span.stream) if on_device else _THREAD,
        "ts": one.start * 1e6, "dur": (one.end - one.start) * 1e6,
        "args": _args(one, number),
    }  # fmt: skip


def _args(one, number):
    if one.kind == ANNOTATION:
        return {"External id": one.number}
    if one.kind == OPERATION:
        args = {"External id": one.number, "Record function id": 0}
        return args | ({"Input Dims": one.shapes} if one.shapes else {})
    args = {"External id": one.link, "correlation": one.link or one.number}
    if one.kind == CALL:
        return args | {"cbid": 0}
    args |= {"device": number, "context": 1, "stream": stream(one.span.stream)}
    args["bytes"] = one.span.bytes
    if one.kind == MEMCPY:
        seconds = one.span.duration
        return args | {"memory bandwidth (GB/s)": one.span.bytes / seconds / 1e9 if seconds else 0}
    return args | (_of_collective(one) if one.span.collective else {"flops": one.span.flops})


def _of_collective(one):
    """Return the arguments of a collective; its elements are bytes, whatever the tensors were."""
    span = one.span
    share = span.bytes // max(1, span.ranks)  # what one rank gives, or gets
    given = share if span.collective == "all_gather" else span.bytes
    filled = share if span.collective == "reduce_scatter" else span.bytes
    return {
        "Collective name": _NAMES.get(span.collective, span.collective),
        "In msg nelems": given, "Out msg nelems": filled, "dtype": "Byte",
        "Group size": span.ranks, "Process Group Name": span.group or "0",
        "Process Group Description": span.group or _GROUP, "Seq": one.sequence,
    }  # fmt: skip


def _flows(activities, events):
    """Yield the arrows from launches to what they have launched."""
    calls = {a.link: e for a, e in zip(activities, events, strict=True) if a.kind == CALL}
    for one, event in zip(activities, events, strict=True):
        if one.kind in ON_DEVICE and one.link in calls:
            for phase, place in (("s", calls[one.link]), ("f", event)):
                end = {"bp": "e"} if phase == "f" else {}
                yield {
                    "ph": phase, "id": one.link, "cat": "ac2g", "name": "ac2g",
                    "pid": place["pid"], "tid": place["tid"], "ts": place["ts"], **end,
                }  # fmt: skip


def _memory(recording, change):
    return {
        "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]",
        "pid": _PID, "tid": _THREAD, "ts": change.time * 1e6,
        "args": {
            "Total Allocated": change.total, "Bytes": change.num_bytes, "Addr": change.address,
            "Device Id": recording.rank.local, "Device Type": 1,
        },
    }  # fmt: skip

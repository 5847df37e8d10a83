"""Traces as Chrome/Perfetto JSON: written from spans, read from our files and from PyTorch's.

The format: "Trace Event Format", The Chromium Project; complete events (``"ph": "X"``) with
``ts`` and ``dur`` in microseconds, and metadata events (``"ph": "M"``) with names.
"""

import json
import os
from pathlib import Path

from simgpu.clock.span import Span
from simgpu.timeline import profiler, ranks
from simgpu.timeline.collectives import count
from simgpu.timeline.files import load
from simgpu.timeline.lanes import lane_of, name_lanes

_OPTIONAL = ("lane", "collective", "group", "ranks")  # written only where a span has them


def write(spans, path, models):
    """Write spans to `path` as JSON that chrome://tracing and ui.perfetto.dev open."""
    processes, threads, events = {}, {}, []
    for span in spans:
        pid = processes.setdefault(span.device, len(processes))
        tid = threads.setdefault((span.device, lane_of(span), span.stream), len(threads))
        events.append(
            {
                "ph": "X",
                "cat": "simgpu",
                "name": span.name,
                "pid": pid,
                "tid": tid,
                "ts": span.start * 1e6,
                "dur": span.duration * 1e6,
                "args": {
                    "device": span.device,
                    "engine": span.engine,
                    "stream": span.stream,
                    "flops": span.flops,
                    "bytes": span.bytes,
                }
                | {field: value for field in _OPTIONAL if (value := getattr(span, field))},
            }
        )
    names = [_metadata("process_name", pid, 0, device) for device, pid in processes.items()]
    names += [
        _metadata("thread_name", processes[device], tid, f"{lane}, stream {stream}")
        for (device, lane, stream), tid in threads.items()
    ]
    data = {"traceEvents": names + events, "displayTimeUnit": "ms"}
    if models:
        data["models"] = models
    Path(path).write_text(json.dumps(data, indent=0), encoding="utf-8")


def _metadata(what, pid, tid, name):
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def read(paths, name=None):
    """Read spans from a file that `write` wrote, or from one or more PyTorch profiler traces.

    Parameters
    ----------
    paths : path, or list of paths
        One file, or one file per rank of a job.
    name : str, optional
        Name of the file in messages; default: its path.

    Returns
    -------
    spans : list of Span
        Those of PyTorch profiler traces start at 0.
    models : dict
        The models of the devices that the file names.

    Raises
    ------
    ValueError
        If a file is not a JSON trace, or has no operation that a timeline can show, or if the
        clocks of the files cannot be aligned.
    """
    paths = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not paths:
        raise ValueError("there are no files to read; give at least one")
    traces, work, models = [], [], []
    for path in paths:
        trace = load(path, name)
        own = [event for event in trace.events if event.get("cat") == "simgpu"]
        if own and len(paths) == 1:
            return [_own(trace, event) for event in own], _own_models(trace)
        traces.append(trace)
        work.append(profiler.activities(trace))
        models.append(profiler.models(trace))
        trace.events.clear()  # the events of all ranks might not fit in memory
        if not work[-1]:
            raise ValueError(
                f"{trace.name} holds no operations of PyTorch's profiler (of the categories "
                "cpu_op, kernel, gpu_memcpy, ...); was anything run inside it?"
            )
    if len(paths) == 1:
        return _spans(work[0], min(a.start for a in work[0])), models[0]
    return _merge(traces, work, models)


def _merge(traces, work, models):
    firsts = [min(a.start for a in activities) for activities in work]
    shifts = ranks.shifts(traces, firsts)
    origin = min(first + shift for first, shift in zip(firsts, shifts, strict=True))
    spans, all_models = [], {}
    for trace, activities, shift, its_models in zip(traces, work, shifts, models, strict=True):
        prefix = f"rank {ranks.rank_of(trace)} "
        spans += _spans(activities, origin - shift, prefix)
        all_models |= {prefix + device: model for device, model in its_models.items()}
    return spans, all_models


def _spans(activities, origin, prefix=""):
    """Convert a profiler's activities to spans; `origin`, in microseconds, becomes 0."""
    lanes = name_lanes(activities)
    return [
        Span(
            prefix + a.device, a.engine, a.stream, a.name,
            (a.start - origin) * 1e-6, a.duration * 1e-6, 0, a.bytes,
            "" if lane == a.engine else lane, a.collective, a.group, a.ranks,
        )
        for a in activities
        for lane in (lanes[a.device, a.base, a.stream],)
    ]  # fmt: skip


def _own(trace, event):
    args = trace.args(event)
    name = trace.text(event, "name", event.get("name"))
    device, engine = (trace.text(event, field, args.get(field)) for field in ("device", "engine"))
    start, duration = trace.number(event, "ts"), trace.number(event, "dur")
    if duration < 0:
        raise trace.invalid_field(event, "dur", duration)
    return Span(
        device, engine, trace.integer(event, "stream", args.get("stream")), name,
        start * 1e-6, duration * 1e-6, count(args.get("flops")), count(args.get("bytes")),
        *(trace.text(event, field, args.get(field, "")) for field in _OPTIONAL[:-1]),
        count(args.get("ranks")),
    )  # fmt: skip


def _own_models(trace):
    models = trace.fields.get("models")
    pairs = models.items() if isinstance(models, dict) else ()
    return {device: model for device, model in pairs if isinstance(model, str)}

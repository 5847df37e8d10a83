"""Traces as Chrome/Perfetto JSON: written from spans, read from our files and from PyTorch's.

The format: "Trace Event Format", The Chromium Project; complete events (``"ph": "X"``) with
``ts`` and ``dur`` in microseconds, and metadata events (``"ph": "M"``) with names.
"""

import gzip
import json
from pathlib import Path

from d2lmini.sim.span import Span

_COPY_ENGINES = {"HtoD": "h2d", "DtoH": "d2h", "PtoP": "p2p"}


def write(spans, path):
    """Write spans to `path` as JSON that chrome://tracing and ui.perfetto.dev open."""
    processes, threads, events = {}, {}, []
    for span in spans:
        pid = processes.setdefault(span.device, len(processes))
        tid = threads.setdefault((span.device, span.engine, span.stream), len(threads))
        events.append(
            {
                "ph": "X",
                "cat": "d2lmini",
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
                },
            }
        )
    names = [_metadata("process_name", pid, 0, device) for device, pid in processes.items()]
    names += [
        _metadata("thread_name", processes[device], tid, f"{engine}, stream {stream}")
        for (device, engine, stream), tid in threads.items()
    ]
    text = json.dumps({"traceEvents": names + events, "displayTimeUnit": "ms"}, indent=0)
    Path(path).write_text(text, encoding="utf-8")


def _metadata(what, pid, tid, name):
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def read(path):
    """Read spans from a file of ours, or from ``export_chrome_trace`` of a PyTorch profiler.

    Spans of a PyTorch profiler start at 0; of nested host operations only the outermost is kept.

    Raises
    ------
    ValueError
        If the file is no JSON trace, or holds no operation that a timeline can show.
    """
    path = Path(path)
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            data = json.load(file)
    except (json.JSONDecodeError, UnicodeDecodeError, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{path} is no JSON trace ({error}); give a file written by Timeline.to_chrome or by "
            "torch.profiler's export_chrome_trace"
        ) from error
    events = data.get("traceEvents") if isinstance(data, dict) else data
    if not isinstance(events, list):
        raise ValueError(f"{path} has no list 'traceEvents'; is it a Chrome trace?")
    events = [e for e in events if isinstance(e, dict) and e.get("ph") == "X"]
    try:
        spans = [_own(e) for e in events if e.get("cat") == "d2lmini"] or _from_torch(events)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: an event lacks or misuses the field {error}") from error
    if not spans:
        raise ValueError(
            f"{path} holds no operations (of the categories cpu_op, kernel, gpu_memcpy, ...); "
            "was anything run inside the profiler?"
        )
    return spans


def _own(event):
    args = event["args"]
    return Span(
        args["device"], args["engine"], args["stream"], event["name"],
        event["ts"] * 1e-6, event["dur"] * 1e-6, args["flops"], args["bytes"],
    )  # fmt: skip


def _from_torch(events):
    by_thread = {}
    kept = []
    for event in events:
        category = event.get("cat")
        if category == "cpu_op":
            by_thread.setdefault((event["pid"], event["tid"]), []).append(event)
        elif _engine(event):
            kept.append(event)
    for thread in by_thread.values():
        kept += _outermost(thread)
    if not kept:
        return []
    origin = min(event["ts"] for event in kept)
    numbers = {thread: number for number, thread in enumerate(by_thread)}
    return [_torch_span(event, origin, numbers) for event in kept]


def _outermost(events):
    """Drop operations that run inside another one of the same thread."""
    end, kept = -1.0, []
    for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        if event["ts"] >= end:
            kept.append(event)
            end = event["ts"] + event["dur"]
    return kept


def _engine(event):
    """Tell which engine ran an event of PyTorch's profiler; None for annotations and the like."""
    category, name = event.get("cat"), event["name"]
    if category == "cpu_op":
        return "cpu"
    if category in ("cuda_runtime", "cuda_driver"):
        return "sync" if "Synchronize" in name else "launch"
    if category in ("kernel", "gpu_memset"):
        return "compute"
    if category == "gpu_memcpy":
        # "Memcpy DtoD" stays on its device and competes with its kernels.
        return next((e for kind, e in _COPY_ENGINES.items() if kind in name), "compute")
    return None


def _torch_span(event, origin, numbers):
    engine, args = _engine(event), event.get("args", {})
    on_host = engine in ("cpu", "launch", "sync")
    if on_host:
        device, stream = "host", numbers.get((event["pid"], event["tid"]), 0)
    else:
        device, stream = f"cuda:{args['device']}", args.get("stream", 0)
    return Span(
        device, engine, stream, event["name"],
        (event["ts"] - origin) * 1e-6, event["dur"] * 1e-6, 0, int(args.get("bytes", 0)),
    )  # fmt: skip

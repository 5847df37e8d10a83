"""Small traces as PyTorch's profiler writes them, made up; and a plain count of what is in them."""

import gzip
import json
import random

PID = 4711


def device_event(category, name, ts, dur, device=0, stream=7, **args):
    """Return an event of a GPU: a kernel, a copy, a memset."""
    args = {"device": device, "context": 1, "stream": stream, "correlation": 1, **args}
    return {"ph": "X", "cat": category, "name": name, "pid": device, "tid": stream, "ts": ts,
            "dur": dur, "args": args}  # fmt: skip


def host_event(category, name, ts, dur, tid=PID):
    """Return an event of the host: an operation, a call."""
    return {"ph": "X", "cat": category, "name": name, "pid": PID, "tid": tid, "ts": ts, "dur": dur}


def write(path, events, packed=False, **fields):
    """Write a trace and return its path."""
    text = json.dumps({"schemaVersion": 1, **fields, "traceEvents": events})
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return path


def busy_gpu(seed, device=3, epoch=0):
    """Return the events of some steps: three streams at work, NCCL on a fourth, two threads."""
    rng, events = random.Random(seed), []

    def fill(stream, choices, count):
        now = epoch + rng.randrange(50)
        for _ in range(count):
            category, name, args = rng.choice(choices)
            duration = rng.randrange(1, 40)
            events.append(
                device_event(category, name, now, duration, device=device, stream=stream, **args)
            )
            now += duration + rng.randrange(20)

    kernels = [("kernel", f"ampere_sgemm_{i}x64_tn", {}) for i in (32, 64)]
    local = [
        ("gpu_memset", "Memset (Device)", {"bytes": 512}),
        ("gpu_memcpy", "Memcpy DtoD (Device -> Device)", {"bytes": 2**20}),
    ]
    to_host = ("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", {"bytes": 4096})
    to_device = ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", {"bytes": 8192})
    nccl = ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", {})
    fill(7, [*kernels, *local, to_device], 120)
    fill(20, [*kernels, local[0], to_host], 60)
    fill(21, [nccl], 40)
    fill(22, [to_device], 50)
    for tid in (PID, PID + 1):
        now = epoch + 5
        for _ in range(60):
            duration = rng.randrange(10, 60)
            events.append(host_event("cpu_op", "aten::linear", now, duration, tid))
            events.append(host_event("cpu_op", "aten::addmm", now + 1, duration - 3, tid))
            events.append(host_event("cuda_runtime", "cudaLaunchKernel", now + 2, 4, tid))
            now += duration + rng.randrange(15)
    events.append(host_event("cuda_runtime", "cudaDeviceSynchronize", now, 100))
    events.append(host_event("user_annotation", "ProfilerStep#3", epoch, now + 200 - epoch))
    events.append(device_event("gpu_user_annotation", "ProfilerStep#3", epoch, 9, device, 7))
    rng.shuffle(events)
    return events


def union(intervals):
    """Return the length of a union of intervals."""
    total, reached = 0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def plain_count(path):
    """Count a trace of `busy_gpu` in a plain way: ``{where: (spans, busy microseconds)}``.

    `where` is (device, what, stream) of a GPU and ("host", what, thread) of the host. Operations
    are counted if no other one of their thread encloses them.
    """
    data = path.read_bytes()
    data = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    groups = {}
    for e in data["traceEvents"]:
        category, name, args = e.get("cat"), e["name"], e.get("args") or {}
        if e["ph"] != "X":
            continue
        if category == "cpu_op":
            where = ("host", "cpu", e["tid"])
        elif category == "cuda_runtime":
            where = ("host", "sync" if name.endswith("Synchronize") else "launch", e["tid"])
        elif category == "kernel" and name.startswith("nccl"):
            where = (args["device"], "nccl", args["stream"])
        elif category == "gpu_memcpy" and "HtoD" in name:
            where = (args["device"], "h2d", args["stream"])
        elif category == "gpu_memcpy" and "DtoH" in name:
            where = (args["device"], "d2h", args["stream"])
        elif category in ("kernel", "gpu_memcpy", "gpu_memset"):
            where = (args["device"], "compute", args["stream"])
        else:
            continue
        groups.setdefault(where, []).append((e["ts"], e["ts"] + e["dur"]))
    counted = {}
    for where, intervals in groups.items():
        spans = len(intervals)
        if where[1] == "cpu":
            spans, reached = 0, float("-inf")
            for start, end in sorted(intervals, key=lambda i: (i[0], -i[1])):
                spans += start >= reached
                reached = max(reached, end)
        counted[where] = spans, union(intervals)
    return counted

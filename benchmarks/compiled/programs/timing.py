"""How the programs time a step, and what they print."""

import json
import os
import time

import torch

WARMUP, STEPS = 2, 3


def report(step):
    """Call `step` a few times; print its seconds and the peaks of memory as a line of JSON.

    The GPU has finished each step before the next begins. Of several ranks the first prints.
    """
    for _ in range(WARMUP):
        _timed(step)
    torch.cuda.reset_peak_memory_stats()
    seconds = sum(_timed(step) for _ in range(STEPS)) / STEPS
    peaks = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps({"seconds": seconds, "allocated": peaks[0], "reserved": peaks[1]}))


def _timed(step):
    torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return time.perf_counter() - start

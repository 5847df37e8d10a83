"""The chapter on feeding: a run of the launcher with its timeline, and what its summary says."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import thread_time

from d2lmini.pages.overlap_and_scaling import run
from simgpu.rates_and_sizes import short_time
from simgpu.timeline import Timeline


def run_with_timeline(command):
    """Run ``simgpu run ...``; return the summary that it prints, and the timeline of the run.

    Parameters
    ----------
    command : str
        As typed into a shell, without ``--timeline``.

    Returns
    -------
    summary : str
    timeline : simgpu.timeline.Timeline
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "timeline.json")
        summary = run(command.replace("simgpu run", f"simgpu run --timeline {path}", 1))
        return summary, Timeline.from_chrome(path)


def seconds_in(summary, before):
    """Return the first time that a summary states behind some words, in seconds.

    Parameters
    ----------
    summary : str
    before : str
        What stands before the time, such as ``"step time"``.

    Examples
    --------
    >>> seconds_in("step time              43.1 ms             median of 3", "step time")
    0.0431
    """
    found = re.search(rf"{re.escape(before)}\s+([\d.]+) (s|ms|µs)\b", summary)
    if found is None:
        raise ValueError(f"no time behind {before!r} in the summary:\n{summary}")
    return short_time(found[1] + found[2])


def share_of_input(summary):
    """Return the share of the time for which the GPUs wait for the loader; 0 if none is named.

    Examples
    --------
    >>> share_of_input("input                  71.3 %              of the time the GPUs wait")
    0.713
    """
    found = re.search(r"^input\s+([\d.]+) %", summary, re.MULTILINE)
    return round(float(found[1]) / 100, 6) if found else 0.0


def cpu_seconds(work: Callable, repeat: int) -> float:
    """Return the seconds that this thread computes for one call of `work`, the least of all.

    What other programs take of the core does not count, except for the caches.
    """
    seconds = []
    for _ in range(repeat):
        began = thread_time()
        work()
        seconds.append(thread_time() - began)
    return min(seconds)

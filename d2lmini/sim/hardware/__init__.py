"""What a GPU, a link and a CPU are: numbers, where they come from, and how to measure them.

Start reading in ``specs.py`` (what a kernel and a copy cost); ``presets.py`` has the numbers.
``calibration.py`` makes such numbers of a real GPU, timed by ``stopwatch.py``. Imports nothing of
the package.
"""

from d2lmini.sim.hardware.presets import (
    CPUS,
    GPUS,
    LINKS,
    find_cpu,
    find_gpu,
    find_link,
)
from d2lmini.sim.hardware.specs import CPU, DTYPES, GPU, Link

__all__ = [
    "CPU",
    "CPUS",
    "DTYPES",
    "GPU",
    "GPUS",
    "LINKS",
    "Link",
    "find_cpu",
    "find_gpu",
    "find_link",
]

"""What GPUs, links, CPUs and clusters are: numbers, where they come from, how to measure them.

Start reading in ``specs.py`` and ``link.py`` (what a kernel and a copy cost); ``presets.py`` has
the numbers. ``calibration.py`` makes such numbers of a real GPU, timed by ``stopwatch.py``.

Several GPUs: ``cluster.py`` puts boards (``boards.py``) and a network (``networks.py``) together,
``collective_costs.py`` says how long a collective takes there, ``transformer_step.py`` how long a
training step of a GPT. Products on tensor cores are as efficient as their shapes allow
(``matmul_efficiency.py``), there and on the clock.

Imports nothing of the rest of the package.
"""

from d2lmini.sim.hardware.cluster import SYSTEMS, Cluster, build_cluster, find_cluster
from d2lmini.sim.hardware.collective_costs import Cost, cost
from d2lmini.sim.hardware.default import find_gpu_and_link, set_default_gpu
from d2lmini.sim.hardware.link import Link
from d2lmini.sim.hardware.networks import NETWORKS, Network, find_network
from d2lmini.sim.hardware.presets import (
    CPUS,
    GPUS,
    LINKS,
    find_cpu,
    find_gpu,
    find_link,
)
from d2lmini.sim.hardware.specs import CPU, GPU
from d2lmini.sim.hardware.validation import DTYPES

__all__ = [
    "CPU",
    "CPUS",
    "DTYPES",
    "GPU",
    "GPUS",
    "LINKS",
    "NETWORKS",
    "SYSTEMS",
    "Cluster",
    "Cost",
    "Link",
    "Network",
    "build_cluster",
    "cost",
    "find_cluster",
    "find_cpu",
    "find_gpu",
    "find_gpu_and_link",
    "find_link",
    "find_network",
    "set_default_gpu",
]

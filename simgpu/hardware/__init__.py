"""What a GPU is: rates, capacities and overheads, each with its source.

Start reading in ``specs.py`` and ``link.py`` (what a kernel and a copy cost); ``presets.py`` has
the numbers, ``assumptions.py`` those that no data sheet gives; ``gpu_file.py`` reads a GPU from a
file. Products on tensor cores are as efficient as their shapes allow (``matmul_efficiency.py``).
``default.py`` says which GPU is simulated where nobody names one.

Imports nothing of the rest of the package, and no torch.
"""

from simgpu.hardware.assumptions import LINK_EFFICIENCY
from simgpu.hardware.default import find_gpu_and_link, set_default_gpu
from simgpu.hardware.link import Link
from simgpu.hardware.presets import CPUS, GPUS, LINKS, find_cpu, find_gpu, find_link
from simgpu.hardware.specs import CPU, GPU
from simgpu.hardware.validation import DTYPES

__all__ = [
    "CPU",
    "CPUS",
    "DTYPES",
    "GPU",
    "GPUS",
    "LINKS",
    "LINK_EFFICIENCY",
    "Link",
    "find_cpu",
    "find_gpu",
    "find_gpu_and_link",
    "find_link",
    "set_default_gpu",
]

"""What a GPU is: rates, capacities and overheads, each with its source.

Start reading in ``specs.py`` and ``link.py`` (what a kernel and a copy cost); ``cards/`` has the
numbers of GPUs by family, ``links.py`` those of links, ``presets.py`` finds both by name,
``assumptions.py`` has the ones that no data sheet gives; ``gpu_file.py`` reads a GPU from a file.
How efficient a product on tensor cores is depends on its shape (``matmul_efficiency.py``).
``default.py`` chooses the GPU and the link that are simulated when none is named.

Imports nothing from the rest of the package but how rates are written, and no torch.
"""

from simgpu.hardware.assumptions import LINK_EFFICIENCY
from simgpu.hardware.attention import attention_efficiency
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
    "attention_efficiency",
    "find_cpu",
    "find_gpu",
    "find_gpu_and_link",
    "find_link",
    "set_default_gpu",
]

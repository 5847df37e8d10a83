"""Presets of GPUs, links and CPUs to simulate, with the source of every number.

Three dictionaries (`GPUS`, `LINKS`, `CPUS`) of the frozen dataclasses of ``specs.py`` and
``link.py``, and a lookup function for each. The GPUs are in ``cards/``, by family, the links in
``links.py``. Modelling assumptions are marked ``assumed`` in `sources` and are the same for every
preset.

Not every combination can be bought, or used with today's PyTorch:

- The NVLink presets give a pair of GPUs all links of either GPU, as machines with NVSwitch do. In
  an eight-GPU DGX-1 with V100s a pair has two links (50 GB/s per direction), one, or none;
  ``simgpu/network/boards.py`` has these pairs, for the cost of collectives. So it is with bridges,
  which join pairs of cards: a copy to another card than the neighbour is too fast here.
- Capacities are nominal, the vendor's GB read as 2**30 bytes. CUDA reports less, since the driver
  and error correction reserve some: 11.2 GiB on a K80, 14.6 on a T4, 15.8 on a V100, 79.3 on an
  A100, 23.6 on an RTX 4090.
- PyTorch 2.13 runs on a V100 only with its wheels for CUDA 12.6; those for CUDA 13, the default,
  need a T4 or newer. No current wheel runs on a K80, which CUDA 12 dropped.
"""

from simgpu.hardware import gpu_file
from simgpu.hardware.cards import CARDS
from simgpu.hardware.links import ASSUMED, LINKS, find_link
from simgpu.hardware.specs import CPU, GPU, OVERHEADS
from simgpu.hardware.validation import DTYPES
from simgpu.nearest import unknown

__all__ = ["CPUS", "GPUS", "LINKS", "find_cpu", "find_gpu", "find_link"]

_MAMF = "S. Bekman, Machine Learning Engineering: maximum achievable matmul FLOPS (bfloat16)"


def _gpu(card):
    """Build the preset of a card."""
    peaks = dict(zip(DTYPES, card.peaks, strict=True))
    peaks |= {key: peak for key in ("float8", "int8") if (peak := getattr(card, key))}
    fast = [dtype for dtype in DTYPES[1:] if peaks[dtype] > peaks["float32"]]
    said = {f"flops.{dtype}": card.tensor for dtype in fast} | card.remarks
    return GPU(
        card.name,
        {dtype: peak * 1e12 for dtype, peak in peaks.items()},
        card.bandwidth * 1e9,
        card.memory * 2**30,
        multiprocessors=card.sms,
        matmul_efficiency=card.matmul,
        sources=_sources(card, peaks)
        | {key: _said(card.source, text) for key, text in said.items()},
    )


def _sources(card, peaks):
    numbers = *(f"flops.{dtype}" for dtype in peaks), "multiprocessors", "memory_bandwidth"
    return {
        **dict.fromkeys(numbers, card.source),
        "memory": f"{card.source}; nominal, GB read as 2**30 bytes: CUDA reports less",
        "matmul_efficiency": _MAMF if card.matmul else "unknown: the rule's BEST",
        **dict.fromkeys((*OVERHEADS, "compute_efficiency", "memory_efficiency"), ASSUMED),
    }


def _said(source, remark):
    replaces = remark[0].isupper() or remark.startswith(("no ", "assumed"))
    return remark if replaces else f"{source}; {remark}"


GPUS = {name: _gpu(card) for name, card in CARDS.items()}


def _cpu(name, cores, gigahertz, flops_per_cycle, bandwidth, source):
    """Build a preset: peak = cores x clock x FLOPs per core and cycle (float32)."""
    single = cores * gigahertz * 1e9 * flops_per_cycle
    # No faster units for the narrower formats: they run at float32's rate.
    flops = {dtype: single / 2 if dtype == "float64" else single for dtype in DTYPES}
    sources = {"flops": source, "memory_bandwidth": source}
    for name_ in ("op_overhead", "compute_efficiency", "memory_efficiency"):
        sources[name_] = ASSUMED
    return CPU(name, flops, bandwidth * 1e9, sources=sources)


CPUS = {
    spec.name: spec
    for spec in (
        _cpu(
            "laptop4", 4, 2.5, 32, 51.2,
            "assumed: 4 cores at 2.5 GHz, two 256-bit multiply-adds a cycle, "
            "two channels DDR4-3200",
        ),
        _cpu(
            "server16", 16, 2.3, 32, 76.8,
            "assumed: 16 cores at 2.3 GHz, two 256-bit multiply-adds a cycle, "
            "four channels DDR4-2400",
        ),
    )
}  # fmt: skip


def _find(name_or_spec, kind, presets):
    if isinstance(name_or_spec, kind):
        return name_or_spec
    label = kind.__name__
    if isinstance(name_or_spec, str) and name_or_spec in presets:
        return presets[name_or_spec]
    others = ", a file that ends in .json" if kind is GPU else ""
    raise ValueError(
        unknown(label, name_or_spec, presets, f"{others}, or a simgpu.{label} of your own")
    )


def find_gpu(name_or_spec) -> GPU:
    """Return the GPU preset of that name, or that of a file; a `GPU` is returned as it is.

    Parameters
    ----------
    name_or_spec : str, path-like or GPU
        A path must end in ``.json``; `simgpu.hardware.gpu_file` describes the file.

    Raises
    ------
    ValueError
        If there is no such preset (the message lists the presets), or a file is not valid.
    """
    if gpu_file.is_gpu_file(name_or_spec):
        return gpu_file.read(name_or_spec)[0]
    return _find(name_or_spec, GPU, GPUS)


def find_cpu(name_or_spec) -> CPU:
    """Return the CPU preset of that name; a `CPU` is returned as it is.

    Raises
    ------
    ValueError
        If there is no such preset; the message lists the presets.
    """
    return _find(name_or_spec, CPU, CPUS)

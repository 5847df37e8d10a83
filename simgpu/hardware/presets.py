"""Presets of GPUs, links and CPUs to simulate, with the source of every number.

Three dictionaries (`GPUS`, `LINKS`, `CPUS`) of the frozen dataclasses of ``specs.py`` and
``link.py``, and a lookup function for each. Vendors' peaks are for dense arithmetic at the highest
clock. Modelling assumptions are marked ``assumed`` in `sources` and are the same for every preset.

Not every combination can be bought, or used with today's PyTorch:

- The numbers of the V100, A100, H100, H200 and B200 are those of SXM modules, which come with
  NVLink: no real machine is a "v100 on pcie3", but it shows what one without NVLink would do. (The
  PCIe boards of these GPUs are slower.)
- The NVLink presets give a pair of GPUs all links of either GPU, as machines with NVSwitch do. In
  an eight-GPU DGX-1 with V100s a pair has two links (50 GB/s per direction), one, or none;
  ``simgpu/network/boards.py`` has these pairs, for the cost of collectives.
- Capacities are nominal, the vendor's GB read as 2**30 bytes. CUDA reports less, since the driver
  and error correction reserve some: 11.2 GiB on a K80, 14.6 on a T4, 15.8 on a V100, 79.3 on an
  A100, 23.6 on an RTX 4090.
- PyTorch 2.13 runs on a V100 only with its wheels for CUDA 12.6; those for CUDA 13, the default,
  need a T4 or newer. No current wheel runs on a K80, which CUDA 12 dropped.
"""

from simgpu.hardware import gpu_file
from simgpu.hardware.assumptions import (
    COPY_LATENCY,
    LINK_EFFICIENCY,
    PAGEABLE_TO_DEVICE,
    PAGEABLE_TO_HOST,
)
from simgpu.hardware.link import Link
from simgpu.hardware.specs import CPU, GPU, OVERHEADS
from simgpu.hardware.validation import DTYPES

_GIB = 2**30
_ASSUMED = "assumed, the same for every preset (simgpu/hardware/assumptions.py)"


def _gpu(
    name, memory_gib, bandwidth, peaks, sms, source, remarks=None, float8=None, int8=None,
    matmul=None,
):  # fmt: skip
    """Build a preset: peaks in TFLOP/s in the order of `DTYPES`, bandwidth in GB/s."""
    flops = dict(zip(DTYPES, (peak * 1e12 for peak in peaks), strict=True))
    flops |= {key: peak * 1e12 for key, peak in (("float8", float8), ("int8", int8)) if peak}
    sources = dict.fromkeys((f"flops.{dtype}" for dtype in flops), source)
    sources["multiprocessors"] = source
    sources["matmul_efficiency"] = _MAMF if matmul else "unknown: the rule's BEST"
    sources["memory_bandwidth"] = source
    sources["memory"] = f"{source}; nominal, GB read as 2**30 bytes: CUDA reports less"
    for name_ in (
        *OVERHEADS, "compute_efficiency", "memory_efficiency"
    ):  # fmt: skip
        sources[name_] = _ASSUMED
    sources.update(remarks or {})
    return GPU(
        name, flops, bandwidth * 1e9, memory_gib * _GIB,
        multiprocessors=sms, matmul_efficiency=matmul, sources=sources,
    )  # fmt: skip


_NO_TF32 = "no TF32 units: float32's rate"
_NO_BF16 = "no bfloat16 units: float32's rate (assumed)"
_TENSOR = "tensor cores, without sparsity"
_TENSOR_64 = "tensor cores, which matrix libraries use for float64 products"

_K80 = "NVIDIA, Tesla K80 GPU Accelerator board specification, 2014"
_T4 = "NVIDIA, T4 Tensor Core GPU product brief, 2018"
_V100 = "NVIDIA, Tesla V100 GPU Architecture whitepaper, 2017 (SXM2 module, 16 GB)"
_A100 = "NVIDIA, A100 Tensor Core GPU data sheet, 2021 (SXM4 module, 80 GB)"
_ADA = "NVIDIA, Ada GPU Architecture whitepaper, 2022 (GeForce RTX 4090)"
_H100 = "NVIDIA, H100 Tensor Core GPU Architecture whitepaper and data sheet, 2022-2023 (SXM5)"
_H200 = "NVIDIA, H200 Tensor Core GPU data sheet, 2023 (SXM); arithmetic as H100's"
_B200 = "NVIDIA, HGX B200 data sheet, 2024: an eighth of the board of eight, without sparsity"
_MAMF = "S. Bekman, Machine Learning Engineering: maximum achievable matmul FLOPS (bfloat16)"

GPUS = {
    spec.name: spec
    for spec in (
        _gpu(
            "k80", 12, 240, (1.455, 4.37, 4.37, 4.37, 4.37), 13,
            f"{_K80}; half of the board, which carries two GK210, at its highest clock",
            {
                "flops.tf32": _NO_TF32,
                "flops.bfloat16": _NO_BF16,
                "flops.float16": "no float16 arithmetic: float32's rate (assumed)",
            },
        ),
        _gpu(
            "t4", 16, 320, (0.254, 8.1, 8.1, 8.1, 65.0), 40, _T4,
            {
                "flops.float64": f"{_T4}; 1/32 of float32",
                "flops.tf32": _NO_TF32,
                "flops.bfloat16": _NO_BF16,
                "flops.float16": f"{_T4}; {_TENSOR}",
            },
            int8=130.0,
        ),
        _gpu(
            "v100", 16, 900, (7.8, 15.7, 15.7, 15.7, 125.0), 80, _V100,
            {
                "flops.tf32": _NO_TF32,
                "flops.bfloat16": _NO_BF16,
                "flops.float16": f"{_V100}; {_TENSOR}",
            },
        ),
        _gpu(
            "a100", 80, 2039, (19.5, 19.5, 156.0, 312.0, 312.0), 108, _A100,
            {
                "flops.float64": f"{_A100}; {_TENSOR_64}",
                **{f"flops.{d}": f"{_A100}; {_TENSOR}" for d in ("tf32", "bfloat16", "float16")},
            },
            int8=624.0, matmul=0.869,
        ),
        _gpu(
            "rtx4090", 24, 1008, (1.29, 82.6, 82.6, 165.2, 165.2), 128, _ADA,
            {
                "flops.float64": f"{_ADA}; 1/64 of float32",
                **{f"flops.{d}": f"{_ADA}; {_TENSOR}" for d in ("tf32", "bfloat16", "float16")},
            },
            float8=330.3, int8=660.6,
        ),
        _gpu(
            "h100", 80, 3350, (66.9, 66.9, 494.7, 989.4, 989.4), 132, _H100,
            {
                "flops.float64": f"{_H100}; {_TENSOR_64}",
                **{f"flops.{d}": f"{_H100}; {_TENSOR}" for d in ("tf32", "bfloat16", "float16")},
            },
            float8=1978.9, int8=1978.9, matmul=0.803,
        ),
        _gpu(
            "h200", 141, 4800, (66.9, 66.9, 494.7, 989.4, 989.4), 132, _H200,
            {
                "flops.float64": f"{_H200}; {_TENSOR_64}",
                **{f"flops.{d}": f"{_H200}; {_TENSOR}" for d in ("tf32", "bfloat16", "float16")},
            },
            float8=1978.9, int8=1978.9, matmul=0.803,
        ),
        _gpu(
            "b200", 180, 7700, (37.0, 75.0, 1125.0, 2250.0, 2250.0), 148, _B200,
            {
                "flops.float64": f"{_B200}; {_TENSOR_64}",
                **{f"flops.{d}": f"{_B200}; {_TENSOR}" for d in ("tf32", "bfloat16", "float16")},
                "multiprocessors": "CUDA device query: 148",
            },
            float8=4500.0, int8=4500.0, matmul=0.776,
        ),
    )
}  # fmt: skip

_PCIE = {
    3: (
        15.754e9,
        "PCI-SIG, PCI Express Base Specification 3.0, 2010: 16 lanes x 8 GT/s",
    ),
    4: (31.508e9, "PCI-SIG, PCI Express Base Specification 4.0, 2017: 16 lanes x 16 GT/s"),
    5: (63.015e9, "PCI-SIG, PCI Express Base Specification 5.0, 2019: 16 lanes x 32 GT/s"),
}
_NVLINK = {
    2: (150e9, 3, "NVIDIA, Tesla V100 whitepaper, 2017: all 6 links x 25 GB/s per direction"),
    3: (300e9, 4, "NVIDIA, A100 data sheet, 2021: 600 GB/s, both directions together"),
    4: (450e9, 5, "NVIDIA, H100 data sheet, 2023: 900 GB/s, both directions together"),
    5: (900e9, 5, "NVIDIA, HGX B200 data sheet, 2024: 1.8 TB/s, both directions together"),
}


_STAGED = (
    "the driver offers no peer access and stages copies in chunks (STAGING_CHUNK, fitted to "
    "NVIDIA/nccl issue 814 and NVIDIA/nccl-tests issue 287); two that go in opposite directions "
    "at once, which do not disturb each other here, reached 1.1 to 1.4 times the rate of one there"
)


def _link(name, pcie, peer_peak=None, peer_source=None, peer=True):
    """Build a preset: PCIe of generation `pcie` to the host; NVLink between peers, if given."""
    host_peak, host_source = _PCIE[pcie]
    host = LINK_EFFICIENCY * host_peak
    peer_bandwidth = LINK_EFFICIENCY * peer_peak if peer_peak else host
    share = f"x LINK_EFFICIENCY {LINK_EFFICIENCY} (assumed)"
    sources = {
        "bandwidth": f"{host_source} {share}",
        "pageable_bandwidth": _ASSUMED,
        "pageable_to_host": _ASSUMED,
        "latency": _ASSUMED,
        "peer": "direct copies between peers" if peer else _STAGED,
        "peer_bandwidth": f"{peer_source or host_source} {share}" if peer else "unused: staged",
        "peer_latency": _ASSUMED if peer else "unused: staged",
        "host_rate": _ASSUMED,
    }
    return Link(
        name=name,
        bandwidth=host,
        pageable_bandwidth=PAGEABLE_TO_DEVICE,
        pageable_to_host=PAGEABLE_TO_HOST,
        latency=COPY_LATENCY,
        peer=peer,
        peer_bandwidth=peer_bandwidth,
        peer_latency=COPY_LATENCY,
        sources=sources,
    )


LINKS = {
    spec.name: spec
    for spec in (
        *(_link(f"pcie{generation}", generation) for generation in _PCIE),
        # GeForce boards without peer access, such as the RTX 4090.
        _link("pcie4_staged", 4, peer=False),
        *(
            _link(f"nvlink{generation}", pcie, peak, source)
            for generation, (peak, pcie, source) in _NVLINK.items()
        ),
    )
}


def _cpu(name, cores, gigahertz, flops_per_cycle, bandwidth, source):
    """Build a preset: peak = cores x clock x FLOPs per core and cycle (float32)."""
    single = cores * gigahertz * 1e9 * flops_per_cycle
    # No faster units for the narrower formats: they run at float32's rate.
    flops = {dtype: single / 2 if dtype == "float64" else single for dtype in DTYPES}
    sources = {"flops": source, "memory_bandwidth": source}
    for name_ in ("op_overhead", "compute_efficiency", "memory_efficiency"):
        sources[name_] = _ASSUMED
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
    raise ValueError(
        f"unknown {label} {name_or_spec!r}; give one of {', '.join(presets)}, "
        + ("a file that ends in .json, " if kind is GPU else "")
        + f"or a simgpu.{label} of your own"
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
        return gpu_file.read(name_or_spec, LINKS)[0]
    return _find(name_or_spec, GPU, GPUS)


def find_link(name_or_spec) -> Link:
    """Return the link preset of that name; a `Link` is returned as it is.

    Raises
    ------
    ValueError
        If there is no such preset; the message lists the presets.
    """
    return _find(name_or_spec, Link, LINKS)


def find_cpu(name_or_spec) -> CPU:
    """Return the CPU preset of that name; a `CPU` is returned as it is.

    Raises
    ------
    ValueError
        If there is no such preset; the message lists the presets.
    """
    return _find(name_or_spec, CPU, CPUS)

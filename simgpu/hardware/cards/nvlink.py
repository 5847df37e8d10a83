"""Modules of data centres on boards with NVLink, from the V100 to the B300.

Their numbers are those of SXM modules: no real machine is a "v100 on pcie3", but it shows what one
without NVLink would do. The PCIe cards with these chips are slower (``pcie.py``).
"""

from simgpu.hardware.cards.card import NO_BF16, NO_TF32, TENSOR_64, Card

FAMILY = "data centre, NVLink"

_V100 = "NVIDIA, Tesla V100 GPU Architecture whitepaper, 2017 (SXM2 module, 16 GB)"
_A100 = "NVIDIA, A100 Tensor Core GPU data sheet, 2021 (SXM4 module, {} GB)"
_H100 = "NVIDIA, H100 Tensor Core GPU Architecture whitepaper and data sheet, 2022-2023 (SXM5)"
_H800 = "NVIDIA, H800 Tensor Core GPU data sheet, 2023 (SXM5), as retold by philisun.com"
_H20 = "NVIDIA, H20 data sheet, 2023, as retold by zangshuxian.com (article 674733024499207168)"
_H200 = "NVIDIA, H200 Tensor Core GPU data sheet, 2023 (SXM); arithmetic as H100's"
_GH200 = (
    "NVIDIA, GH200 Grace Hopper Superchip data sheet, 2023 (96 GB HBM3), "
    "nvidia.com/en-us/data-center/grace-hopper-superchip; arithmetic as H100's"
)
_B200 = "NVIDIA, HGX B200 data sheet, 2024: an eighth of the board of eight, without sparsity"
_B300 = (
    "NVIDIA, HGX B300 data sheet, 2025, nvidia.com/en-us/data-center/hgx, as retold by "
    "glennklockwood.com/garden/processors/B300: an eighth of the board of eight, without sparsity"
)
_QUERY = "CUDA device query: {}"
_SAME_CHIP = "assumed: an H100's, whose chip it has"
_AMPERE = (19.5, 19.5, 156.0, 312.0, 312.0)
_HOPPER = (66.9, 66.9, 494.7, 989.4, 989.4)
_BLACKWELL = (37.0, 75.0, 1125.0, 2250.0, 2250.0)
_FLOAT64 = {"flops.float64": TENSOR_64}

CARDS = (
    Card("v100", "Tesla V100-SXM2-16GB", (7, 0), 16, 900, (7.8, 15.7, 15.7, 15.7, 125.0), 80, 6,
         "nvlink2", _V100, {"flops.tf32": NO_TF32, "flops.bfloat16": NO_BF16}),
    Card("a100", "NVIDIA A100-SXM4-80GB", (8, 0), 80, 2039, _AMPERE, 108, 40, "nvlink3",
         _A100.format(80), _FLOAT64, int8=624.0, matmul=0.869),
    Card("a100-40gb", "NVIDIA A100-SXM4-40GB", (8, 0), 40, 1555, _AMPERE, 108, 40, "nvlink3",
         _A100.format(40), _FLOAT64, int8=624.0, matmul=0.869),
    Card("h100", "NVIDIA H100 80GB HBM3", (9, 0), 80, 3350, _HOPPER, 132, 50, "nvlink4", _H100,
         _FLOAT64, float8=1978.9, int8=1978.9, matmul=0.803),
    Card("h800", "NVIDIA H800", (9, 0), 80, 3350, (1.0, *_HOPPER[1:]), 132, 50, "nvlink4_400",
         _H800, {"matmul_efficiency": _SAME_CHIP}, float8=1978.9, int8=1978.9, matmul=0.803,
         l2_source=_SAME_CHIP),
    Card("h20", "NVIDIA H20", (9, 0), 96, 4000, (1.0, 44.0, 74.0, 148.0, 148.0), 78, 50, "nvlink4",
         _H20, {"multiprocessors": _QUERY.format(78)}, float8=296.0, int8=296.0,
         l2_source=_SAME_CHIP),
    Card("h200", "NVIDIA H200", (9, 0), 141, 4800, _HOPPER, 132, 60, "nvlink4", _H200, _FLOAT64,
         float8=1978.9, int8=1978.9, matmul=0.803, l2_source=_QUERY.format("60 MiB")),
    Card("gh200", "NVIDIA GH200 480GB", (9, 0), 96, 4000, _HOPPER, 132, 50, "nvlink4_c2c", _GH200,
         _FLOAT64, float8=1978.9, int8=1978.9, matmul=0.838, l2_source=_SAME_CHIP),
    Card("b200", "NVIDIA B200", (10, 0), 180, 7700, _BLACKWELL, 148, 126, "nvlink5", _B200,
         {**_FLOAT64, "multiprocessors": _QUERY.format(148)}, float8=4500.0, int8=4500.0,
         matmul=0.776, l2_source=_QUERY.format("126 MiB")),
    # Left out: int8, of which one source says 4,500 TOPS and another 150.
    Card("b300", "NVIDIA B300 SXM6 AC", (10, 3), 268, 8000, (1.25, *_BLACKWELL[1:]), 148, 126,
         "nvlink5", _B300,
         {"memory": "2.1 TB of eight: the 288 GB of its stacks are 268 GiB",
          "multiprocessors": _QUERY.format(148)},
         float8=4500.0, matmul=0.786, l2_source=_QUERY.format("126 MiB")),
)  # fmt: skip

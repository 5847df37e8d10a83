"""Cards of data centres in PCIe slots, from the K80 to the H100 NVL."""

from simgpu.hardware.cards.card import NO_BF16, NO_TF32, SIXTY_FOURTH, TENSOR_64, Card

FAMILY = "data centre, PCIe"

_K80 = "NVIDIA, Tesla K80 GPU Accelerator board specification, 2014"
_HALF_K80 = f"{_K80}; half of the board, which carries two GK210, at its highest clock"
_T4 = "NVIDIA, T4 Tensor Core GPU product brief, 2018"
_A10 = (
    "NVIDIA, A10 Tensor Core GPU data sheet, 2021, "
    "nvidia.com/content/dam/en-zz/Solutions/Data-Center/a10/pdf/a10-datasheet.pdf"
)
_A40 = "NVIDIA, A40 data sheet, 2021, and Ampere GA102 GPU Architecture whitepaper V2.0, 2021"
_A100 = "NVIDIA, A100 Tensor Core GPU data sheet, 2021 (PCIe card, {} GB)"
_L4 = "NVIDIA, L4 Tensor Core GPU data sheet and product brief, 2023"
_L40S = "NVIDIA, L40S data sheet, 2023, nvidia.com/en-us/data-center/l40s"
_H100 = "NVIDIA, H100 Tensor Core GPU data sheet, 2023, nvidia.com/en-us/data-center/h100 ({})"
_BRIEF = "NVIDIA, H100 PCIe GPU product brief PB-11133, 2022"
_KEPLER = {
    "flops.tf32": NO_TF32,
    "flops.bfloat16": NO_BF16,
    "flops.float16": "no float16 arithmetic: float32's rate (assumed)",
}
_TURING = {"flops.float64": "1/32 of float32", "flops.tf32": NO_TF32, "flops.bfloat16": NO_BF16}
_AMPERE = (19.5, 19.5, 156.0, 312.0, 312.0)
_FLOAT64 = {"flops.float64": TENSOR_64}

CARDS = (
    Card("k80", "Tesla K80", (3, 7), 12, 240, (1.455, 4.37, 4.37, 4.37, 4.37), 13, 1.5, "pcie3",
         _HALF_K80, _KEPLER),
    Card("t4", "Tesla T4", (7, 5), 16, 320, (0.254, 8.1, 8.1, 8.1, 65.0), 40, 4, "pcie3", _T4,
         _TURING, int8=130.0),
    Card("a10", "NVIDIA A10", (8, 6), 24, 600, (0.4875, 31.2, 62.5, 125.0, 125.0), 72, 6, "pcie4",
         _A10, SIXTY_FOURTH, int8=250.0),
    Card("a40", "NVIDIA A40", (8, 6), 48, 696, (0.584, 37.4, 74.8, 149.7, 149.7), 84, 6, "pcie4",
         _A40, SIXTY_FOURTH, int8=299.3),
    Card("a100pcie", "NVIDIA A100 80GB PCIe", (8, 0), 80, 1935, _AMPERE, 108, 40, "pcie4",
         _A100.format(80), _FLOAT64, int8=624.0, matmul=0.811),
    Card("a100pcie-40gb", "NVIDIA A100-PCIE-40GB", (8, 0), 40, 1555, _AMPERE, 108, 40, "pcie4",
         _A100.format(40), _FLOAT64, int8=624.0, matmul=0.811),
    Card("l4", "NVIDIA L4", (8, 9), 24, 300, (0.473, 30.3, 60.0, 121.0, 121.0), 58, 48, "pcie4",
         _L4, SIXTY_FOURTH, float8=242.5, int8=242.5, l2_source="assumed: all of the chip's",
         tensor="tensor cores, half of what it prints, which is with sparsity"),
    Card("l40s", "NVIDIA L40S", (8, 9), 48, 864, (1.43, 91.6, 183.0, 362.05, 362.05), 142, 96,
         "pcie4", _L40S, SIXTY_FOURTH, float8=733.0, int8=733.0,
         l2_source="assumed: an RTX 6000 Ada's, whose chip it has"),
    Card("h100pcie", "NVIDIA H100 PCIe", (9, 0), 80, 2039, (51.0, 51.0, 378.0, 756.0, 756.0), 114,
         50, "pcie5:2xsapphire-rapids", _H100.format("PCIe"),
         {**_FLOAT64, "memory_bandwidth": _BRIEF}, float8=1513.0, int8=1513.0),
    Card("h100nvl", "NVIDIA H100 NVL", (9, 0), 94, 3900, (60.0, 60.0, 417.5, 835.5, 835.5), 132,
         50, "pcie5_bridge600:2xsapphire-rapids", _H100.format("NVL"), _FLOAT64,
         float8=1670.5, int8=1670.5),
)  # fmt: skip

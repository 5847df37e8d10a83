"""GeForce cards. Their tensor cores take twice as long for products with float32 sums.

Shops and data sheets print the rate with float16 sums, or one for half of the numbers zero on top
of it. PyTorch's products of 16 and 8 bits sum in float32: the peaks here are a half, or a quarter,
of those.
"""

from simgpu.hardware.cards.card import SIXTY_FOURTH, Card

FAMILY = "GeForce"

_AMPERE = "NVIDIA, Ampere GA102 GPU Architecture whitepaper V2.0, 2021 (GeForce RTX 3090)"
_ADA = "NVIDIA, Ada GPU Architecture whitepaper, 2022 (GeForce RTX 4090)"
_BLACKWELL = "NVIDIA, RTX Blackwell GPU Architecture whitepaper, 2025 (GeForce RTX 5090)"
_HALF = "tensor cores with float32 sums, half of the rate with float16 sums; without sparsity"

CARDS = (
    Card("rtx3090", "NVIDIA GeForce RTX 3090", (8, 6), 24, 936, (0.556, 35.6, 35.6, 71.0, 71.0),
         82, 6, "pcie4_staged", _AMPERE, SIXTY_FOURTH, int8=284.0, tensor=_HALF),
    Card("rtx4090", "NVIDIA GeForce RTX 4090", (8, 9), 24, 1008, (1.29, 82.6, 82.6, 165.2, 165.2),
         128, 72, "pcie4_staged", _ADA, SIXTY_FOURTH, float8=330.3, int8=660.6, tensor=_HALF),
    Card("rtx5090", "NVIDIA GeForce RTX 5090", (12, 0), 32, 1792,
         (1.637, 104.8, 104.8, 209.5, 209.5), 170, 96, "pcie5:staged:2xsapphire-rapids",
         _BLACKWELL, SIXTY_FOURTH, float8=419.0, int8=838.0, tensor=_HALF,
         l2_source="CUDA device query: 96 MiB"),
)  # fmt: skip

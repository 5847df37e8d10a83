"""Cards of workstations, which people also rent in servers."""

from simgpu.hardware.cards.card import SIXTY_FOURTH, Card

FAMILY = "workstation"

_A6000 = "NVIDIA, Ampere GA102 GPU Architecture whitepaper V2.0, 2021, appendix C (RTX A6000)"
_ADA = "NVIDIA, RTX 6000 Ada Generation data sheet, 2022, and Ada GPU Architecture whitepaper"
_PRO = (
    "NVIDIA, RTX Blackwell PRO GPU Architecture whitepaper, 2025 (RTX PRO 6000 Workstation "
    "Edition), as retold by hmc-tech.com"
)

CARDS = (
    Card("a6000", "NVIDIA RTX A6000", (8, 6), 48, 768, (0.605, 38.7, 77.4, 154.8, 154.8), 84, 6,
         "pcie4", _A6000, SIXTY_FOURTH, int8=309.7),
    Card("rtx6000ada", "NVIDIA RTX 6000 Ada Generation", (8, 9), 48, 960,
         (1.42, 91.1, 182.1, 364.2, 364.2), 142, 96, "pcie4", _ADA, SIXTY_FOURTH,
         float8=728.5, int8=728.5),
    Card("rtxpro6000", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", (12, 0), 96, 1792,
         (1.97, 125.95, 251.9, 503.8, 503.8), 188, 128, "pcie5:2xsapphire-rapids", _PRO,
         SIXTY_FOURTH, float8=1007.6, int8=1007.6),
)  # fmt: skip

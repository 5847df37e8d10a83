"""Which file is drawn by which function."""

from __future__ import annotations

from pathlib import Path

from tools.figures import collectives, splitting

IMAGE_DIR = Path(__file__).resolve().parents[2] / "chapters" / "img"

FIGURES = {
    "split-network.svg": splitting.split_network,
    "split-layers.svg": splitting.split_layers,
    "split-data.svg": splitting.split_data,
    "data-parallel.svg": collectives.data_parallel,
    "alexnet-split.svg": splitting.alexnet_split,
    "allreduce-star.svg": collectives.allreduce_star,
    "allreduce-ring.svg": collectives.allreduce_ring,
}


def render_all() -> dict[str, str]:
    """Return the text of every SVG file, by file name."""
    return {name: draw().svg() for name, draw in FIGURES.items()}

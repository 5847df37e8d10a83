"""Which file is drawn by which function."""

from __future__ import annotations

from pathlib import Path

from tools.figures import (
    collectives,
    decisions,
    devices,
    eight_collectives,
    graphs,
    logo,
    processes,
    timelines,
)
from tools.figures.splits import experts, splitting, tensor

IMAGE_DIR = Path(__file__).resolve().parents[2] / "chapters" / "img"

FIGURES = {
    "logo.svg": logo.logo,
    "three-lines.svg": graphs.three_lines,
    "mlp-graph.svg": graphs.mlp_graph,
    "overlap.svg": timelines.overlap,
    "diamond.svg": graphs.diamond,
    "split-network.svg": splitting.split_network,
    "split-layers.svg": splitting.split_layers,
    "alexnet-split.svg": splitting.alexnet_split,
    "split-mlp.svg": tensor.split_mlp,
    "two-all-to-alls.svg": experts.two_all_to_alls,
    "mesh.svg": processes.mesh,
    "data-parallel.svg": collectives.data_parallel,
    "allreduce-star.svg": collectives.allreduce_star,
    "allreduce-ring.svg": collectives.allreduce_ring,
    "collectives.svg": eight_collectives.eight_collectives,
    "dataparallel.svg": devices.dataparallel,
    "ddp-processes.svg": processes.ddp_processes,
    "three-rounds.svg": processes.three_rounds,
    "ddp-buckets.svg": timelines.ddp_buckets,
    "gpu-model.svg": devices.gpu_model,
    "what-to-try.svg": decisions.what_to_try,
}


def render_all() -> dict[str, str]:
    """Return the text of every SVG file, by file name."""
    return {name: draw().svg() for name, draw in FIGURES.items()}

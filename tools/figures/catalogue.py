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
    networks,
    processes,
    timelines,
)
from tools.figures.splits import experts, pipeline, sequence, splitting, tensor
from tools.figures.strips.film import drawn
from tools.figures.strips.kinds import films, title

IMAGE_DIR = Path(__file__).resolve().parents[2] / "chapters" / "img"

# One step of a strip: its kind, what is chosen, which step.
STRIPS = {
    "strip-sums.svg": ("sums", ("ring",), 3),
    "strip-ddp.svg": ("zero", ("DDP",), 12),
    "strip-zero.svg": ("zero", ("ZeRO-2",), 8),
    "strip-zero3.svg": ("zero", ("ZeRO-3",), 18),
    "strip-tensor.svg": ("tensor", ("tensor parallelism",), -1),
    "strip-sequence-parallel.svg": ("tensor", ("with sequence parallelism",), -1),
    "strip-pipeline.svg": ("pipeline", ("GPipe", "4", "1"), -1),
    "strip-1f1b.svg": ("pipeline", ("1F1B", "4", "8"), -1),
    "strip-ring.svg": ("sequence", ("neighbouring chunks",), 2),
    "strip-zigzag.svg": ("sequence", ("zigzag",), -1),
    "strip-experts.svg": ("experts", (), 3),
    "strip-expert-mesh.svg": ("mesh", ("experts: 2 replicas x 4 of experts",), 2),
    "strip-plan.svg": ("mesh", ("4 replicas x 2 tensor",), 2),
    "strip-mesh.svg": ("mesh", ("2 stages x 2 shards x 2 tensor",), 2),
}

FIGURES = {
    "logo.svg": logo.logo,
    "transformer-block.svg": networks.transformer_block,
    "three-lines.svg": graphs.three_lines,
    "mlp-graph.svg": graphs.mlp_graph,
    "overlap.svg": timelines.overlap,
    "diamond.svg": graphs.diamond,
    "split-network.svg": splitting.split_network,
    "split-layers.svg": splitting.split_layers,
    "alexnet-split.svg": splitting.alexnet_split,
    "cut-network.svg": pipeline.cut_network,
    "split-mlp.svg": tensor.split_mlp,
    "heads-for-tokens.svg": sequence.heads_for_tokens,
    "two-all-to-alls.svg": experts.two_all_to_alls,
    "mesh.svg": processes.mesh,
    "data-parallel.svg": collectives.data_parallel,
    "allreduce-star.svg": collectives.allreduce_star,
    "allreduce-ring.svg": collectives.allreduce_ring,
    "collectives.svg": eight_collectives.eight_collectives,
    "feeding.svg": devices.feeding,
    "ten-changes.svg": processes.ten_changes,
    "ddp-processes.svg": processes.ddp_processes,
    "three-rounds.svg": processes.three_rounds,
    "ddp-buckets.svg": timelines.ddp_buckets,
    "weak-and-strong.svg": timelines.weak_and_strong,
    "accumulation.svg": timelines.accumulation,
    "five-mistakes.svg": processes.five_mistakes,
    "gpu-model.svg": devices.gpu_model,
    "kernel-start.svg": timelines.kernel_start,
    "what-to-try.svg": decisions.what_to_try,
}


def render_all() -> dict[str, str]:
    """Return the text of every SVG file, by file name."""
    return {name: draw().svg() for name, draw in FIGURES.items()}


def _strip(kind, chosen, step):
    return lambda: drawn(films(kind)[chosen], step, title(kind))


FIGURES |= {name: _strip(*strip) for name, strip in STRIPS.items()}

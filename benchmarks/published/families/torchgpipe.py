"""torchgpipe's speed of ResNet-101 on P40s: a pipeline with recomputation."""

from dataclasses import replace
from functools import lru_cache

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.published.shared.resnets import balance, blocks, pipeline, shapes_of
from benchmarks.published.shared.rows import Prediction, UnpredictableError, positive, whole
from d2lmini import sim
from simgpu.bands.kinds import kind_of
from simgpu.hardware.presets import find_gpu
from simgpu.network.cluster import build_cluster
from simgpu.plan.simulate import ROOMY, causes_between

TITLE = "ResNet-101, GPipe on P40 {cite}`kim2020torchgpipe`"
COLUMNS = {"model", "experiment", "partitions", "micro_batches", "samples_per_s"}
FITTED = (
    "nothing. Assumed, since the table does not say so: micro-batches of 32 images, four for each "
    "partition; partitions of whole blocks, balanced by FLOPs; PCIe 3"
)
IMAGES, COUNT = 32, 4
DEPTHS = {"ResNet-50": 50, "ResNet-101": 101, "ResNet-152": 152}
# NVIDIA, Tesla P40 data sheet, 2017: 11.76 TFLOP/s, 24 GB at 346 GB/s; no tensor cores.
P40 = replace(
    find_gpu("k80"), name="p40", flops=dict.fromkeys(find_gpu("k80").flops, 11.76e12),
    memory_bandwidth=346e9, memory=ROOMY, multiprocessors=30,
)  # fmt: skip


def predict(row):
    """Return the `Prediction` of a row (a dict); raise `UnpredictableError` if there is none."""
    parts, name = whole(row, "partitions"), row["model"].strip()
    if name not in DEPTHS:
        raise UnpredictableError(f"no model is called {name!r}; known are {', '.join(DEPTHS)}")
    given = row["micro_batches"].strip()
    baseline = row["experiment"].strip() == "baseline"
    count = whole(row, "micro_batches") if given else 1 if baseline else COUNT * parts
    cuts = balance(_costs(DEPTHS[name]), parts)
    try:
        seconds = max(
            sim.spawn(
                pipeline, (DEPTHS[name], cuts, IMAGES, count), parts, gpu=P40, link="pcie3",
                numerics=False,
            )
        )  # fmt: skip
    except (ValueError, RuntimeError) as error:
        raise UnpredictableError(f"its program does not run: {error}") from None
    measured = count * IMAGES / positive(row, "samples_per_s")
    what = f"{name}, {row['experiment']}, {parts} partitions, {count} micro-batches"
    causes = causes_between(P40, 0.0, max(span.end for span in sim.trace()))
    kind = kind_of(build_cluster(parts, P40, "pcie3"), "float32", causes, compiled=False)
    return Prediction("torchgpipe, P40", "p40/pcie3", what, measured, seconds, kind=kind)


@lru_cache(maxsize=4)
def _costs(depth):
    """Return the FLOPs of each block, for one image."""
    shapes, costs = shapes_of(depth, 1), []
    with torch.device("meta"):
        for part, shape in zip(blocks(depth), shapes, strict=False):
            costs.append(_flops(part, torch.empty(shape)))
    return costs


def _flops(part, x):
    with FlopCounterMode(display=False) as counter:
        part(x)
    return counter.get_total_flops()

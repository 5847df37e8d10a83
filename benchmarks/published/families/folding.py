"""Mixtures of experts on H100s in several meshes (Liu et al., *MoE Parallel Folding*, 2025)."""

from dataclasses import replace

from benchmarks.published.rows import Prediction, UnpredictableError, positive, whole
from simgpu.network.cluster import build_cluster
from simgpu.plan.presets import PRESETS
from simgpu.plan.simulate import simulate
from simgpu.plan.step.job import Job, Program

COLUMNS = {
    "model", "method", "gpus", "seq", "global_batch", "CP", "TP", "EP", "PP", "ETP", "MFU_pct",
}  # fmt: skip
FITTED = (
    "nothing. Assumed: 1F1B, no recomputation, balanced routing, attention counted in full, "
    "gradients in 32 bits"
)
_BIG = PRESETS["mixtral-8x22b"]
MODELS = {
    "Mixtral-8x22B": _BIG,
    "Mixtral-8x22B-G8T8": replace(_BIG, experts=64, active=8, inner=2048),
    "Qwen2-57B-A14B": PRESETS["qwen2-57b-a14b"],
    "Llama3-8x70B": replace(PRESETS["llama3-70b"], experts=8, active=2),
}
METHODS = {
    "FSDP": "full", "FSDP+EP": "full",
    "TP+EP+DP": "optimizer", "MCore": "optimizer", "MCore+Folding": "optimizer",
}  # fmt: skip
PEAK = 989.4e12


def predict(row):
    """Return the `Prediction` of a row (a dict); raise `UnpredictableError` if there is none."""
    if row["model"] not in MODELS:
        raise UnpredictableError(f"{row['model']!r} has layers that there is no program for")
    if row["method"] not in METHODS:
        raise UnpredictableError(f"no program for {row['method']!r}")
    degrees = {name: int(row[name].strip() or 1) for name in ("TP", "EP", "PP", "CP")}
    gpus, batch = whole(row, "gpus"), whole(row, "global_batch")
    tensor, pipeline = degrees["TP"], degrees["PP"]
    expert = degrees["EP"]
    split = int(row["ETP"]) if row["ETP"].strip() else None  # None: as the other layers
    model = replace(MODELS[row["model"]], seq=whole(row, "seq"))
    data = gpus // (tensor * pipeline)
    program = Program(
        METHODS[row["method"]], sequence_parallel=tensor > 1, compiled=True, loss_in_place=True
    )
    count = batch * degrees["CP"] // data
    try:
        cluster = build_cluster(gpus, "h100", "nvlink4", -(-gpus // 8), "ndr")
        job = Job(
            model, program, cluster, tensor, data, pipeline, 1, count, degrees["CP"], expert, split
        )
    except ValueError as error:
        raise UnpredictableError(str(error)) from None
    if job.sequences != batch:
        raise UnpredictableError(f"a batch of {batch} is no multiple of {job.replicas} replicas")
    measured = model.flops(batch) / (gpus * PEAK * positive(row, "MFU_pct") / 100)
    found = simulate(job)
    return Prediction(
        "MoE, Eos (H100)", "h100/nvlink4/ndr",
        f"{row['model']}, {gpus} GPUs, {row['method']}: TP{tensor} EP{expert} PP{pipeline}, "
        f"{count} x micro-batch 1; {found.memory / 2**30:.0f} GiB",
        measured, found.seconds, job=f"{row['model']} on {gpus} GPUs, batch {batch}",
        context=degrees["CP"],
    )  # fmt: skip

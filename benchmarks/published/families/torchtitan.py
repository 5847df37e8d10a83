"""torchtitan's published runs: Llama 3 with FSDP2, tensor and pipeline parallelism on H100s.

Their H100s have 96 GB of HBM2e at 2.4 TB/s and 500 W; peaks lie "between SXM and NVL" there.
"""

import re
from dataclasses import replace

from benchmarks.published.shared.models import find_model
from benchmarks.published.shared.rows import Prediction, UnpredictableError, positive, whole
from simgpu.hardware.presets import find_gpu
from simgpu.network.cluster import build_cluster
from simgpu.plan.errors import kind_of_job
from simgpu.plan.simulate import simulate
from simgpu.plan.step.job import Job, Program

TITLE = "Llama 3, FSDP2 x TP x PP, torchtitan {cite}`liang2024torchtitan`"
COLUMNS = {
    "model", "gpus", "parallelism", "techniques", "seq", "local_batch",
    "activation_checkpointing", "tokens_per_s_per_gpu", "peak_GiB",
}  # fmt: skip
FITTED = (
    "nothing: FSDP2, FlashAttention-2, 8 x 400 Gbit/s; arithmetic as an H100 SXM's. Assumed: "
    "sequences of 8192 tokens, as many micro-batches as stages, two stages a rank if interleaved; "
    "compiled: each layer, not the loss; float8: one scale a tensor"
)
RECOMPUTE = {
    "selective": "products",
    "per-op selective": "products",
    "full": "full",
    "none": "none",
}
SEQ = 8192
GIB = 2**30
# torchtitan, benchmarks/llama3_h100_202412_torchtitan.md: 96 GB HBM2e, 2.4 TB/s.
GPU = replace(find_gpu("h100"), name="h100-96", memory=96 * GIB, memory_bandwidth=2.4e12)


def predict(row):
    """Return the `Prediction` of a row (a dict); raise `UnpredictableError` if there is none."""
    degrees = {name: int(n) for name, n in re.findall(r"([A-Z]+)\s*(\d+)", row["parallelism"])}
    techniques, gpus = row["techniques"], whole(row, "gpus")
    unknown = set(degrees) - {"FSDP", "TP", "PP", "CP"}
    if unknown:
        raise UnpredictableError(f"no program for {', '.join(sorted(unknown))}")
    recompute = RECOMPUTE.get(row["activation_checkpointing"].strip())
    if recompute is None:
        raise UnpredictableError(f"unknown checkpointing {row['activation_checkpointing']!r}")
    number = re.match(r"\d+", row["seq"].strip())
    seq = int(number[0]) if number else SEQ
    tensor, pipeline, context = (degrees.get(name, 1) for name in ("TP", "PP", "CP"))
    model = find_model(f"llama3 {row['model']}", seq)
    notes = [] if number and "default" not in row["seq"] else [f"seq {SEQ} assumed"]
    if "asyncTP" in techniques:
        notes.append("asyncTP predicted as TP that is waited for")
    batch = whole(row, "local_batch")
    chunks = 2 if "interleaved" in techniques else 1
    rows = -(-model.layers // (pipeline * chunks)) * pipeline * chunks
    if rows != model.layers:
        notes.append(f"{rows} layers, to divide them evenly")
    count = pipeline * chunks if pipeline > 1 else 1  # torchtitan's default
    if batch % count:
        raise UnpredictableError(f"a local batch of {batch} is no multiple of {count} stages")
    program = Program(
        recompute=recompute, sequence_parallel=tensor > 1, overlap=False, chunks=chunks,
        compiled="compile" in techniques, float8="float8" in techniques, attention="flash",
    )  # fmt: skip
    try:
        nodes = -(-gpus // 8)
        cluster = build_cluster(gpus, GPU, "nvlink4", nodes, "ndr" if nodes > 1 else None)
        job = Job(
            replace(model, layers=rows), program, cluster, tensor,
            degrees.get("FSDP", 1) * context, pipeline, batch // count, count, context,
        )  # fmt: skip
    except ValueError as error:
        raise UnpredictableError(str(error)) from None
    found = simulate(job)
    tokens = batch * seq / (tensor * pipeline * context)
    # torchtitan prints what PyTorch's allocator has reserved.
    memory = row["peak_GiB"].strip() and (positive(row, "peak_GiB") * GIB, found.reserved)
    said = found.memory <= GPU.memory
    return Prediction(
        "torchtitan, H100 96 GB", "h100-96/nvlink4/ndr",
        f"Llama 3 {row['model']}, {row['parallelism']}, {techniques}, "
        f"recompute {row['activation_checkpointing']}",
        tokens / positive(row, "tokens_per_s_per_gpu"), found.seconds, memory=memory or None,
        job=f"{row['model']}, {gpus} GPUs, seq {seq}", assumed="; ".join(notes),
        fits=(True, said) if memory else None, context=context,
        kind=kind_of_job(job, found.causes),
    )  # fmt: skip

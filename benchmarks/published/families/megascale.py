"""Megatron-LM's steps of a 175B on A100s, from MegaScale's tables (Jiang et al., 2024)."""

import re

from benchmarks.published.rows import Prediction, UnpredictableError, positive, whole
from benchmarks.published.systems import find_system
from simgpu.plan.simulate import simulate
from simgpu.plan.step.job import Job, Model, Program

COLUMNS = {
    "model", "hidden", "heads", "layers", "seq", "TP", "PP", "interleave", "global_batch", "method",
    "gpus", "iteration_s",
}  # fmt: skip
FITTED = (
    "nothing. Assumed: micro-batches of one, flash attention, ZeRO-1, sequence parallelism, a "
    "vocabulary of 51,200; 8 x 200 Gbit/s a node, as the paper says"
)
VOCABULARY = 51_200


def predict(row):
    """Return the `Prediction` of a row (a dict); raise `UnpredictableError` if there is none."""
    if row["method"] != "Megatron-LM":
        raise UnpredictableError(
            f"{row['method']} changes the model: its blocks are parallel, its attention a window"
        )
    hidden, heads, layers, seq, tensor, pipeline, batch, gpus = (
        whole(row, name)
        for name in ("hidden", "heads", "layers", "seq", "TP", "PP", "global_batch", "gpus")
    )
    chunks = re.match(r"\d+", row["interleave"])
    data = gpus // (tensor * pipeline)
    if data < 1 or batch % data:
        raise UnpredictableError(f"a batch of {batch} is no multiple of {data}")
    cluster, preset = find_system("A100, 8x200", gpus, -(-gpus // 8))
    program = Program(
        "optimizer", sequence_parallel=tensor > 1, compiled=True, loss_in_place=True,
        chunks=int(chunks[0]) if chunks else 1,
    )  # fmt: skip
    try:
        model = Model(hidden, heads, layers, seq, VOCABULARY)
        job = Job(model, program, cluster, tensor, data, pipeline, 1, batch // data)
    except ValueError as error:
        raise UnpredictableError(str(error)) from None
    return Prediction(
        "Megatron-LM, MegaScale's A100s", preset,
        f"{row['model']}, {gpus} GPUs, TP{tensor} DP{data} PP{pipeline} x {program.chunks}, "
        f"batch {batch}",
        positive(row, "iteration_s"), simulate(job).seconds,
    )  # fmt: skip

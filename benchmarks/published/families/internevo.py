"""InternEvo's 7B model on A100s: ZeRO-1 with tensor parallelism 1 and 2, 8 to 1,024 GPUs."""

from benchmarks.published.shared.rows import Prediction, UnpredictableError, positive, whole
from simgpu.network.cluster import build_cluster
from simgpu.plan.errors import kind_of_job
from simgpu.plan.simulate import simulate
from simgpu.plan.step.job import Job, Model, Program

TITLE = "a 7B, ZeRO-1 with TP 1 and 2, InternEvo {cite}`chen2024internevo`"
COLUMNS = {
    "test", "gpus", "TP", "zero1_group", "seq", "micro_batch", "grad_accum", "activation_ckpt",
    "tokens_per_s_per_gpu",
}  # fmt: skip
FITTED = (
    "nothing. Assumed: the feed-forward width and the vocabulary of InternLM-7B. As in "
    "InternEvo's hybrid_zero_optim.py: gradients of 16 bits, all-reduced over all replicas, "
    "whoever shares the optimiser's states; 4 x 100 Gbit/s a node, as the source says"
)
MODEL = (4096, 32, 32)  # hidden, heads, layers
NETWORK = "12.5GB/s:4"


def predict(row):
    """Return the `Prediction` of a row (a dict); raise `UnpredictableError` if there is none."""
    gpus, tensor, micro, count, seq = (
        whole(row, name) for name in ("gpus", "TP", "micro_batch", "grad_accum", "seq")
    )
    data = gpus // tensor
    group = data if row["zero1_group"] == "all DP" else whole(row, "zero1_group")
    model = Model(*MODEL, seq, 103_168, inner=11_008, gated=True, tied=False)
    nodes = -(-gpus // 8)
    cluster = build_cluster(gpus, "a100", "nvlink3", nodes, NETWORK if nodes > 1 else None)
    recompute = "full" if row["activation_ckpt"] == "on" else "none"
    program = Program("optimizer", recompute, sequence_parallel=tensor > 1, fused=True,
                      reduce_bytes=2, zero_group=group)  # fmt: skip
    try:
        job = Job(model, program, cluster, tensor, data, 1, micro, count)
    except ValueError as error:
        raise UnpredictableError(str(error)) from None
    measured = job.sequences * seq / gpus / positive(row, "tokens_per_s_per_gpu")
    found = simulate(job)
    return Prediction(
        "InternEvo, A100", f"a100/nvlink3/{NETWORK}",
        f"7B, {gpus} GPUs, TP{tensor} DP{data}, ZeRO-1 over {group}, {count} x "
        f"micro-batch {micro}, recompute {recompute}",
        measured, found.seconds,
        job=f"7B on {gpus} GPUs, batch {job.sequences}, {row['test'].partition(',')[0]}",
        kind=kind_of_job(job, found.causes),
    )  # fmt: skip

"""vTrain's measurements: steps of GPTs with Megatron-DeepSpeed on A100s, in many splits.

Bang et al., *vTrain*, 2024: fp16, one forward one backward, all layers checkpointed; nodes of
8 A100s with NVSwitch, 800 Gbit/s between them.
"""

from benchmarks.published.families.transformer_step import Split, Transformer, predict_step
from benchmarks.published.rows import Prediction, UnpredictableError, positive, whole
from simgpu.network.cluster import build_cluster

COLUMNS = {
    "# GPUs", "global batch", "micro batch", "hidden size", "attention heads", "# layers",
    "sequence length", "tensor parallelism", "data parallelism", "pipeline parallelism",
    "iteration time (ms)",
}  # fmt: skip
# Host seconds for each kernel of this program. In it the host is often slower than the GPU: small
# layers take 3.5 ms each whatever their size. The median ratio of the 137 single-node rows with
# hidden size 1024 and micro-batch 1 is 1 for this value.
LAUNCH = 37.5e-6
FITTED = (
    f"host time for each kernel of Megatron-DeepSpeed ({LAUNCH * 1e6:.1f} us), to the rows on one "
    "node with hidden size 1024 and micro-batch 1 (their median)"
)
GPUS_PER_NODE = 8


def predict(row, launch=LAUNCH):
    """Return the `Prediction` of a row (a dict); raise `UnpredictableError` if there is none.

    `launch` is what `predict_step` takes: None for the GPU's own, so that nothing is fitted.
    """
    gpus, batch, micro, hidden, heads, layers, seq, tensor, data, pipeline = (
        whole(row, name)
        for name in (
            "# GPUs", "global batch", "micro batch", "hidden size", "attention heads", "# layers",
            "sequence length", "tensor parallelism", "data parallelism", "pipeline parallelism",
        )
    )  # fmt: skip
    nodes = -(-gpus // GPUS_PER_NODE)
    try:
        cluster = build_cluster(nodes * GPUS_PER_NODE, "a100", "nvlink3", nodes, "hdr4")
        split = Split(tensor, data, pipeline, batch, micro)
        if split.world_size != gpus:
            raise UnpredictableError(
                f"{tensor} x {data} x {pipeline} is not the table's {gpus} GPUs"
            )
        step = predict_step(Transformer(hidden, heads, layers, seq), split, cluster, launch=launch)
    except ValueError as error:
        raise UnpredictableError(str(error)) from None
    what = f"h{hidden} L{layers} TP{tensor} DP{data} PP{pipeline} batch {batch}, micro {micro}"
    return Prediction(
        f"vTrain, {'one node' if nodes == 1 else 'several nodes'}",
        "a100/nvlink3" + ("/hdr4" if nodes > 1 else ""),
        what,
        positive(row, "iteration time (ms)") * 1e-3,
        step.seconds,
        fitted=nodes == 1 and hidden == 1024 and micro == 1,
        job=f"h{hidden} L{layers} s{seq}, {gpus} GPUs, batch {batch}",
    )

"""vTrain's measurements: steps of GPTs with Megatron-DeepSpeed on A100s, in many splits.

Bang et al., *vTrain*, 2024: fp16, one forward one backward, all layers checkpointed; nodes of
8 A100s with NVSwitch, 800 Gbit/s between them. The program has Megatron's kernels: attention in
products, a softmax and dropout, fused biases and activations, a kernel that adds each gradient.
"""

from dataclasses import replace

from benchmarks.published.shared.rows import Prediction, UnpredictableError, positive, whole
from simgpu.network.cluster import build_cluster
from simgpu.plan.errors import kind_of_job
from simgpu.plan.simulate import simulate
from simgpu.plan.step.job import Job, Model, Program

TITLE = "GPTs, Megatron-DeepSpeed {cite}`bang2024vtrain`"
COLUMNS = {
    "# GPUs", "global batch", "micro batch", "hidden size", "attention heads", "# layers",
    "sequence length", "tensor parallelism", "data parallelism", "pipeline parallelism",
    "iteration time (ms)",
}  # fmt: skip
# Host seconds for each kernel of this program. In it the host is often slower than the GPU: small
# layers take 3.5 ms each whatever their size. For this value the median ratio of the
# rows on one node with hidden size 1024 and micro-batch 1 is 1.
LAUNCH = 48.9e-6
FITTED = (
    f"host time for each kernel of Megatron-DeepSpeed ({LAUNCH * 1e6:.1f} us), to the rows on one "
    "node with hidden size 1024 and micro-batch 1 (their median)"
)
GPUS_PER_NODE = 8


VOCABULARY = 51_200
PROGRAM = Program(
    "none", "all", overlap=False, fused=True, reduce_bytes=2, loss="in place",
    attention="unfused", adds=True, host_waits=True, dtype="float16",
)  # fmt: skip


def job_of(row, launch=LAUNCH):
    """Return the `Job` of a row (a dict); raise `UnpredictableError` if there is none.

    `launch` is the host's seconds for each kernel; None: the GPU's own, so that nothing is fitted.
    """
    gpus, batch, micro, hidden, heads, layers, seq, tensor, data, pipeline = (
        whole(row, name)
        for name in (
            "# GPUs", "global batch", "micro batch", "hidden size", "attention heads", "# layers",
            "sequence length", "tensor parallelism", "data parallelism", "pipeline parallelism",
        )
    )  # fmt: skip
    model = Model(hidden, heads, layers, seq, VOCABULARY, dropout=True, biases=True)
    if tensor * data * pipeline != gpus:
        raise UnpredictableError(f"{tensor} x {data} x {pipeline} is not the table's {gpus} GPUs")
    if batch % (data * micro):
        raise UnpredictableError(f"a batch of {batch} is no multiple of {data} x {micro}")
    nodes = -(-gpus // GPUS_PER_NODE)
    try:
        cluster = build_cluster(gpus, "a100", "nvlink3", nodes, "hdr4" if nodes > 1 else None)
        if launch is not None:
            gpu = replace(cluster.gpu, launch_overhead=launch)
            cluster = replace(cluster, gpu=gpu, name=f"{cluster.name}, launches {launch:g} s")
        count = batch // (data * micro)
        return Job(model, PROGRAM, cluster, tensor, data, pipeline, micro, count)
    except ValueError as error:
        raise UnpredictableError(str(error)) from None


def predict(row):
    """Return the `Prediction` of a row."""
    job = job_of(row)
    nodes, hidden, micro = job.cluster.nodes, job.model.hidden, job.micro_batch
    batch, gpus = job.sequences, job.cluster.world_size
    what = f"h{hidden} L{job.model.layers} TP{job.tensor} DP{job.data} PP{job.pipeline}"
    plain = job_of(row, launch=None)
    unfitted = simulate(plain)
    return Prediction(
        f"vTrain, {'one node' if nodes == 1 else 'several nodes'}",
        "a100/nvlink3" + ("/hdr4" if nodes > 1 else ""),
        f"{what} batch {batch}, micro {micro}",
        positive(row, "iteration time (ms)") * 1e-3,
        simulate(job).seconds,
        fitted=nodes == 1 and hidden == 1024 and micro == 1,
        job=f"h{hidden} L{job.model.layers} s{job.model.seq}, {gpus} GPUs, batch {batch}",
        unfitted=unfitted.seconds,
        kind=kind_of_job(plain, unfitted.causes),
    )

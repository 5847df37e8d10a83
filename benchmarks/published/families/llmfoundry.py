"""MosaicML's llm-foundry: steps of MPT models with FSDP on H100s and A100s."""

from contextlib import contextmanager

import torch

from benchmarks.published.shared.models import find_model
from benchmarks.published.shared.rows import Prediction, UnpredictableError, positive, whole
from benchmarks.published.shared.systems import find_system
from simgpu.plan.errors import kind_of_job
from simgpu.plan.simulate import simulate
from simgpu.plan.step.job import Job, Program

TITLE = "MPT, FSDP, llm-foundry {cite}`mosaicml2023foundry`"
COLUMNS = {
    "Model", "SeqLen (T)", "# GPUs", "GPU", "MicroBatchSize", "GradAccum", "GlobalBatchSize",
    "Throughput (T/s/GPU)", "Precision", "MP Mode", "Sharding Strategy",
    "Activation Checkpointing", "Activation CPUOffload",
}  # fmt: skip
FITTED = (
    "no number. The source does not say which version of FlashAttention ran; the first one, half "
    "as fast, is chosen because all rows with long sequences are slow. Assumed: nodes of 8 H100s "
    "with 8 x 400 Gbit/s"
)
SHARDS = {"FULL_SHARD": "full", "SHARD_GRAD_OP": "grad_op", "NO_SHARD": "none"}
REDUCED = {"DEFAULT": 4, "PURE": 2, "FULL": 4}  # bytes of a gradient's number that is summed
TYPES = {"16": "bfloat16", "32": "float32"}
GPUS_PER_NODE = 8


@contextmanager
def tf32(allowed):
    """Let products of 32 bits be shortened to TF32 in the block, as Composer does."""
    kept = torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = allowed or kept
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = kept


def job_of(row):
    """Return the `Job` of a row (a dict); raise `UnpredictableError` if there is none."""
    gpus, micro, batch = (whole(row, n) for n in ("# GPUs", "MicroBatchSize", "GlobalBatchSize"))
    strategy, mode = row["Sharding Strategy"].strip(), row["MP Mode"].strip()
    if strategy not in SHARDS:
        raise UnpredictableError(f"sharding strategy {strategy!r}; known are {', '.join(SHARDS)}")
    if mode not in REDUCED:
        raise UnpredictableError(f"MP mode {mode!r}; known are {', '.join(REDUCED)}")
    if row["Activation CPUOffload"].strip().lower() == "true":
        raise UnpredictableError("activations are moved to the host, which is not simulated")
    dtype = next((name for bits, name in TYPES.items() if bits in row["Precision"]), None)
    if dtype is None:
        raise UnpredictableError(f"precision {row['Precision']!r}; known are 16 and 32 bits")
    cluster, preset = find_system(row["GPU"], gpus, -(-gpus // GPUS_PER_NODE))
    if batch % (gpus * micro):
        raise UnpredictableError(f"a batch of {batch} is no multiple of {gpus} x {micro}")
    again = row["Activation Checkpointing"].strip().lower() == "true"
    program = Program(
        shard=SHARDS[strategy], recompute="full" if again else "none",
        reduce_bytes=REDUCED[mode] if dtype == "bfloat16" else 4, attention="efficient",
        dtype=dtype,
    )  # fmt: skip
    model = find_model(f"mpt {row['Model']}", whole(row, "SeqLen (T)"))
    count = batch // (gpus * micro)
    try:
        job = Job(model, program, cluster, data=gpus, micro_batch=micro, micro_batches=count)
    except ValueError as error:
        raise UnpredictableError(str(error)) from None
    return job, preset


def predict(row):
    """Return the `Prediction` of a row (a dict); raise `UnpredictableError` if there is none."""
    job, preset = job_of(row)
    rate = positive(row, "Throughput (T/s/GPU)")
    tokens = job.micro_batch * job.micro_batches * job.model.seq
    with tf32(job.program.dtype == "float32"):
        found = simulate(job)
    what = (
        f"MPT {row['Model']} seq {job.model.seq}, {job.data} GPUs, {row['Sharding Strategy']}, "
        f"recompute {job.program.recompute}, {job.micro_batches} x micro-batch {job.micro_batch}"
    )
    return Prediction(f"llm-foundry, {row['GPU']}", preset, what, tokens / rate, found.seconds,
                      kind=kind_of_job(job, found.causes))  # fmt: skip

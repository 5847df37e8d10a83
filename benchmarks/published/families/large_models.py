"""Large runs of several sources: Llama 2 and 3 on up to thousands of GPUs."""

import re
from dataclasses import replace

from benchmarks.published.shared.models import find_model
from benchmarks.published.shared.rows import Prediction, UnpredictableError, positive, whole
from benchmarks.published.shared.systems import find_system
from simgpu.plan.errors import kind_of_job
from simgpu.plan.simulate import simulate
from simgpu.plan.step.job import Job, Program

TITLE = "large runs, several sources"
COLUMNS = {
    "source", "model", "hardware", "gpus", "precision", "parallelism", "seq", "global_batch",
    "micro_batch", "tokens_per_s_per_gpu", "tflops_per_gpu",
}  # fmt: skip
FITTED = (
    "nothing. Assumed where a row does not say so: 8192 tokens, micro-batches of one, one of them "
    "in a step, up to 8 chunks a stage, flash attention, 8 x 200 (A100) or 400 Gbit/s a node"
)
SEQ, MOST_CHUNKS = 8192, 8


def predict(row):
    """Return the `Prediction` of a row (a dict); raise `UnpredictableError` if there is none."""
    gpus, words = whole(row, "gpus"), row["parallelism"]
    degrees = {name: int(n) for name, n in re.findall(r"([A-Z]+)\s*(\d+)", words)}
    context, expert = degrees.get("CP", 1), degrees.get("EP", 1)
    notes = [] if row["seq"].strip() else [f"seq {SEQ}"]
    seq = whole(row, "seq") if row["seq"].strip() else SEQ
    micro = whole(row, "micro_batch") if row["micro_batch"].strip() else 1
    tensor, pipeline = degrees.get("TP", 1), degrees.get("PP", 1)
    data = gpus // (tensor * pipeline)
    count = _micro_batches(row["global_batch"].strip(), seq, data // context, micro)
    model, notes = _even(find_model(_name(row), seq), pipeline, notes)
    cluster, preset = find_system(row["hardware"], gpus, -(-gpus // 8))
    chunks = degrees.get("VP") or _chunks(model.layers // pipeline, pipeline)
    float8 = "fp8" in row["precision"].lower()
    if float8 and "not printed" in row["precision"]:
        notes.append("float8")
    program = Program(
        _shard(words), _recompute(words), tensor > 1, fused=True, chunks=chunks, float8=float8,
    )  # fmt: skip
    try:
        job = Job(model, program, cluster, tensor, data, pipeline, micro, count, context, expert)
    except ValueError as error:
        raise UnpredictableError(str(error)) from None
    found = simulate(job)
    return Prediction(
        f"{row['source']}", preset, f"{row['model']}, {gpus} GPUs, {words}, {row['precision']}",
        _measured(row, job), found.seconds,
        assumed=f"assumed: {', '.join(notes)}" if notes else "", context=context,
        kind=kind_of_job(job, found.causes),
    )  # fmt: skip


def _name(row):
    return row["model"] if "llama" in row["model"].lower() else f"llama3 {row['model']}"


def _even(model, pipeline, notes):
    """Return the model with as many layers as the stages divide evenly."""
    layers = -(-model.layers // pipeline) * pipeline
    if layers != model.layers:
        notes = [*notes, f"{layers} layers"]
    return replace(model, layers=layers), notes


def _chunks(layers, pipeline):
    if pipeline == 1:
        return 1
    return max(n for n in range(1, MOST_CHUNKS + 1) if layers % n == 0)


def _shard(words):
    if "HSDP" in words:
        return "hybrid"
    return "full" if "FSDP" in words else "optimizer"


def _recompute(words):
    return "full" if re.search(r"(?<!no )\bAC\b", words) else "none"


def _micro_batches(words, seq, data, micro):
    """Return how many micro-batches a replica has in a step."""
    if not words:
        return 1
    tokens = re.match(r"([\d.]+)M tokens", words)
    if not tokens and not words.isdecimal():
        raise UnpredictableError(f"global_batch is {words!r}; give sequences or tokens")
    sequences = round(float(tokens[1]) * 2**20 / seq) if tokens else int(words)
    if sequences % (data * micro):
        raise UnpredictableError(f"a batch of {sequences} is no multiple of {data} x {micro}")
    return sequences // (data * micro)


def _measured(row, job):
    """Return the seconds of a step that a row's rate gives."""
    sequences = job.sequences
    if row["tokens_per_s_per_gpu"].strip():
        rate = positive(row, "tokens_per_s_per_gpu")
        return sequences * job.model.seq / (job.cluster.world_size * rate)
    rate = positive(row, "tflops_per_gpu") * 1e12
    return job.model.flops(sequences) / (job.cluster.world_size * rate)

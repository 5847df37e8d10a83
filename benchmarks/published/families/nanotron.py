"""The best splits that nanotron's benchmark found on H100 nodes (Ultra-Scale Playbook, 2025)."""

from benchmarks.published.shared.rows import Prediction, UnpredictableError, positive, whole
from benchmarks.published.shared.systems import find_system
from simgpu.plan.errors import kind_of_job
from simgpu.plan.simulate import simulate
from simgpu.plan.step.job import Job, Model, Program

TITLE = "Llamas, best splits, nanotron {cite}`tazi2025ultrascale`"
COLUMNS = {
    "params_B", "nodes", "gpus", "DP", "TP", "PP", "grad_accum", "micro_batch", "zero", "MFU_pct",
    "memory_GB",
}  # fmt: skip
FITTED = (
    "nothing. Assumed: shapes of Llama with as many heads of keys, worked out from the number of "
    "parameters; 4096 tokens; sequence parallelism; gradients summed in 32 bits after the last "
    "backward pass; 8 x 400 Gbit/s"
)
SEQ, VOCABULARY, PEAK = 4096, 131_072, 989.4e12
# Billions of parameters: hidden, heads, layers, width, tied. The count fits no other Llama.
SHAPES = {
    1.34: (2048, 32, 16, 8192, True), 3.57: (3072, 24, 28, 8192, True),
    8.86: (4096, 32, 32, 14_336, False), 80.0: (8192, 64, 80, 28_672, False),
}  # fmt: skip


def find_model(billions):
    """Return the `Model` with this many billions of parameters, within 2 %."""
    for known, (hidden, heads, layers, inner, tied) in SHAPES.items():
        if abs(billions / known - 1) < 0.02:
            return Model(hidden, heads, layers, SEQ, VOCABULARY, inner=inner, gated=True, tied=tied)
    raise UnpredictableError(
        f"no model with {billions} billion parameters; known are {', '.join(map(str, SHAPES))}"
    )


def job_of(row):
    """Return the `Job` of a row and its preset; raise `UnpredictableError` if there is none."""
    nodes, gpus, data, tensor, pipeline, count, micro = (
        whole(row, name)
        for name in ("nodes", "gpus", "DP", "TP", "PP", "grad_accum", "micro_batch")
    )
    model = find_model(positive(row, "params_B"))
    cluster, preset = find_system("H100, 8x400", gpus, nodes)
    zero = row["zero"].strip()
    if zero not in ("ZeRO-0", "ZeRO-1"):
        raise UnpredictableError(f"{zero!r} is not simulated; ZeRO-0 and ZeRO-1 are")
    program = Program(
        "optimizer" if zero == "ZeRO-1" else "none", sequence_parallel=tensor > 1, overlap=False,
        loss="in place", attention="flash",
    )  # fmt: skip
    try:
        return Job(model, program, cluster, tensor, data, pipeline, micro, count), preset
    except ValueError as error:
        raise UnpredictableError(str(error)) from None


def predict(row):
    """Return the `Prediction` of a row (a dict); raise `UnpredictableError` if there is none."""
    job, preset = job_of(row)
    model, gpus, data, tensor, pipeline = (
        job.model, job.cluster.world_size, job.data, job.tensor, job.pipeline,
    )  # fmt: skip
    batch = data * job.micro_batches * job.micro_batch
    flops = 6 * model.parameters + 12 * model.layers * model.hidden * SEQ
    measured = batch * SEQ * flops / (gpus * PEAK * positive(row, "MFU_pct") / 100)
    found = simulate(job)
    return Prediction(
        "nanotron, H100 nodes", preset,
        f"{row['params_B']}B, {row['nodes']} nodes, DP{data} TP{tensor} PP{pipeline} "
        f"{row['zero'].strip()}, {job.micro_batches} x micro-batch {job.micro_batch}",
        measured, found.seconds, memory=(positive(row, "memory_GB") * 1e9, found.memory),
        job=f"{row['params_B']}B on {gpus} GPUs",
        fits=(True, found.memory <= job.cluster.gpu.memory), kind=kind_of_job(job, found.causes),
    )  # fmt: skip

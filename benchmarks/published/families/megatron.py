"""Megatron-LM's published scaling tables: A100, 2021 (recomputation) and H100, 2024 (Core)."""

import re
from dataclasses import replace

from benchmarks.published.shared.models import find_model
from benchmarks.published.shared.rows import Prediction, UnpredictableError, positive, whole
from benchmarks.published.shared.systems import find_system
from simgpu.plan.errors import kind_of_job
from simgpu.plan.simulate import simulate
from simgpu.plan.step.job import Job, Model, Program

GPUS_PER_NODE = 8
GIB = 2**30


class A100:
    """Narayanan et al., 2021, Table 1: fp16, everything recomputed, interleaved pipelines."""

    TITLE = "GPTs on A100, TP x DP x PP, Megatron {cite}`narayanan2021efficient`"
    COLUMNS = frozenset({
        "hidden", "layers", "heads", "TP", "PP", "gpus", "global_batch", "micro_batch",
        "layers_per_virtual_stage", "tflops_per_gpu",
    })  # fmt: skip
    FITTED = "nothing: Megatron's kernels, no overlap of communication; 8 x 200 Gbit/s a node"
    SEQ, VOCABULARY = 2048, 51_200

    @classmethod
    def predict(cls, row):
        """Return the `Prediction` of a row; raise `UnpredictableError` if there is none."""
        hidden, layers, heads, tensor, pipeline, gpus, batch, micro = (
            whole(row, name)
            for name in (
                "hidden", "layers", "heads", "TP", "PP", "gpus", "global_batch", "micro_batch",
            )
        )  # fmt: skip
        model = Model(hidden, heads, layers, cls.SEQ, cls.VOCABULARY, dropout=True, biases=True)
        virtual = row["layers_per_virtual_stage"].strip()
        chunks = layers // pipeline // whole(row, "layers_per_virtual_stage") if virtual else 1
        program = Program(
            "none", "all", overlap=False, fused=True, reduce_bytes=2, attention="unfused",
            chunks=max(chunks, 1), loss="in place", host_waits=True,
            dtype="float16",
        )  # fmt: skip
        measured = _counted(model, batch) / (gpus * positive(row, "tflops_per_gpu") * 1e12)
        return _predict(row, model, program, "A100, 8x200", gpus, tensor, pipeline, batch, micro,
                        measured, "2021")  # fmt: skip


class H100:
    """Megatron Core r0.8.0, 2024: bf16, no recomputation, all overlaps."""

    TITLE = "GPTs on H100, TP x DP x PP, Megatron Core {cite}`nvidia2024megatron`"
    COLUMNS = frozenset({
        "heads", "hidden", "layers", "TP", "PP", "DP", "gpus", "global_batch", "tflops_per_gpu",
        "MFU_pct",
    })  # fmt: skip
    FITTED = (
        "nothing. Assumed: micro-batches of one in a pipeline, else of up to four; interleaved "
        "with up to 8 chunks a stage; sequence parallelism, ZeRO-1, 8 x 400 Gbit/s"
    )
    SEQ, VOCABULARY = 4096, 131_072

    @classmethod
    def predict(cls, row):
        """Return the `Prediction` of a row; raise `UnpredictableError` if there is none."""
        hidden, layers, heads, tensor, pipeline, data, gpus, batch = (
            whole(row, name)
            for name in ("hidden", "layers", "heads", "TP", "PP", "DP", "gpus", "global_batch")
        )
        if data * tensor * pipeline != gpus:
            raise UnpredictableError(
                f"{tensor} x {data} x {pipeline} is not the table's {gpus} GPUs"
            )
        model = Model(hidden, heads, layers, cls.SEQ, cls.VOCABULARY, tied=False)
        local = batch // data
        micro = 1 if pipeline > 1 else max(n for n in (1, 2, 4) if local % n == 0)
        stage = layers // pipeline
        chunks = max(n for n in range(1, 9) if stage % n == 0) if pipeline > 1 else 1
        program = Program("optimizer", sequence_parallel=tensor > 1, fused=True, chunks=chunks,
                          loss="in place")  # fmt: skip
        measured = model.flops(batch) / (gpus * positive(row, "tflops_per_gpu") * 1e12)
        return _predict(row, model, program, "H100, 8x400", gpus, tensor, pipeline, batch, micro,
                        measured, "2024")  # fmt: skip


class MegaScale:
    """Megatron-LM's steps of a 175B, bf16, from MegaScale's tables (Jiang et al., 2024)."""

    TITLE = "a 175B on A100, Megatron-LM {cite}`jiang2024megascale`"
    COLUMNS = frozenset({
        "model", "hidden", "heads", "layers", "seq", "TP", "PP", "interleave", "global_batch",
        "method", "gpus", "iteration_s",
    })  # fmt: skip
    FITTED = (
        "nothing. Assumed: micro-batches of one, flash attention, ZeRO-1, sequence parallelism, a "
        "vocabulary of 51,200; 8 x 200 Gbit/s a node, as the paper says"
    )
    VOCABULARY = 51_200

    @classmethod
    def predict(cls, row):
        """Return the `Prediction` of a row; raise `UnpredictableError` if there is none."""
        if row["method"] != "Megatron-LM":
            raise UnpredictableError(
                f"{row['method']} changes the model: parallel blocks, attention in a window"
            )
        hidden, heads, layers, seq, tensor, pipeline, batch, gpus = (
            whole(row, name)
            for name in ("hidden", "heads", "layers", "seq", "TP", "PP", "global_batch", "gpus")
        )
        chunks = re.match(r"\d+", row["interleave"])
        program = Program(
            "optimizer", sequence_parallel=tensor > 1, fused=True, loss="in place",
            chunks=int(chunks[0]) if chunks else 1,
        )  # fmt: skip
        model = Model(hidden, heads, layers, seq, cls.VOCABULARY)
        return _predict(row, model, program, "A100, 8x200", gpus, tensor, pipeline, batch, 1,
                        positive(row, "iteration_s"), "MegaScale's A100s")  # fmt: skip


class B200:
    """SimuMax's measurements of Megatron Core on a node of B200s, in several splits (2026)."""

    TITLE = "layers of Llama 3 70B on B200, Megatron Core {cite}`moorethreads2026simumax`"
    COLUMNS = frozenset({
        "case", "model", "layers", "gpus", "gpu", "TP", "PP", "DP", "CP", "EP", "seq",
        "micro_batch", "micro_batches", "precision", "step_ms_measured",
        "peak_alloc_GiB_measured",
    })  # fmt: skip
    FITTED = (
        "nothing. Assumed: ZeRO-1, sequence parallelism, fused kernels, a loss computed in place"
    )

    @classmethod
    def predict(cls, row):
        """Return the `Prediction` of a row; raise `UnpredictableError` if there is none."""
        if not row["model"].startswith("Llama 3 70B"):
            raise UnpredictableError(f"{row['model']!r} has layers that there is no program for")
        layers, seq, gpus, tensor, pipeline, context, micro, count = (
            whole(row, name)
            for name in (
                "layers", "seq", "gpus", "TP", "PP", "CP", "micro_batch", "micro_batches",
            )
        )  # fmt: skip
        model = replace(find_model("llama3 70B", seq), layers=layers)
        cluster, preset = find_system(row["gpu"], gpus, -(-gpus // GPUS_PER_NODE))
        program = Program("optimizer", sequence_parallel=tensor > 1, compiled=True,
                          loss_in_place=True)  # fmt: skip
        data = gpus // (tensor * pipeline)
        try:
            job = Job(model, program, cluster, tensor, data, pipeline, micro, count, context)
        except ValueError as error:
            raise UnpredictableError(str(error)) from None
        found = simulate(job)
        return Prediction(
            "SimuMax, B200", preset,
            f"{layers} layers, seq {seq}, TP{tensor} DP{data // context} PP{pipeline} "
            f"CP{context}, {count} x micro-batch {micro}",
            positive(row, "step_ms_measured") * 1e-3, found.seconds,
            memory=(positive(row, "peak_alloc_GiB_measured") * GIB, found.memory),
            job=f"seq {seq}, {gpus} GPUs, batch {job.sequences}", context=context,
            fits=(True, found.memory <= job.cluster.gpu.memory),
            kind=kind_of_job(job, found.causes),
        )  # fmt: skip


def _counted(model, batch):
    """Return the FLOPs that the source counts: ``96 B s l h^2 (1 + s/6h + V/16lh)``."""
    h, layers = model.hidden, model.layers
    share = 1 + model.seq / (6 * h) + model.vocabulary / (16 * layers * h)
    return 96 * batch * model.seq * layers * h**2 * share


def _predict(row, model, program, system, gpus, tensor, pipeline, batch, micro, measured, source):
    data = gpus // (tensor * pipeline)
    cluster, preset = find_system(system, gpus, -(-gpus // GPUS_PER_NODE))
    if data < 1 or batch % (data * micro):
        raise UnpredictableError(f"a batch of {batch} is no multiple of {data} x {micro}")
    try:
        job = Job(model, program, cluster, tensor, data, pipeline, micro, batch // (data * micro))
    except ValueError as error:
        raise UnpredictableError(str(error)) from None
    what = (
        f"h{model.hidden} L{model.layers} TP{tensor} DP{data} PP{pipeline} x {program.chunks} "
        f"batch {batch}, micro {micro}"
    )
    found = simulate(job)
    return Prediction(f"Megatron {source}", preset, what, measured, found.seconds,
                      kind=kind_of_job(job, found.causes))  # fmt: skip

"""Mixtures of experts on H100s, most of them NVIDIA's: Megatron Core, Bridge and AutoModel."""

import re
from dataclasses import replace
from typing import ClassVar

from benchmarks.published.shared.models import find_model
from benchmarks.published.shared.rows import Prediction, UnpredictableError, positive, whole
from benchmarks.published.shared.systems import find_system
from simgpu.plan.errors import kind_of_job
from simgpu.plan.presets import PRESETS
from simgpu.plan.simulate import simulate
from simgpu.plan.step.job import Job, Program

NETWORK = "H100, 8x400"


def _job(model, program, degrees, gpus, micro, batch, system):
    """Return the `Job`, its preset, and what was assumed; `degrees` by name, 1 where missing."""
    tensor, context, expert, pipeline = (degrees.get(n) or 1 for n in ("TP", "CP", "EP", "PP"))
    stages = pipeline * program.chunks
    layers = -(-model.layers // stages) * stages
    data = gpus // (tensor * pipeline)
    notes = [f"{layers} layers, to divide them evenly"] if layers != model.layers else []
    if not data or batch * context % (data * micro):
        raise UnpredictableError(
            f"a batch of {batch} is no multiple of {data // context} replicas x {micro}"
        )
    count = batch * context // (data * micro)
    cluster, preset = find_system(system, gpus, -(-gpus // 8))
    try:
        job = Job(
            replace(model, layers=layers), program, cluster, tensor, data, pipeline, micro, count,
            context, expert, degrees.get("ETP"),
        )  # fmt: skip
    except ValueError as error:
        raise UnpredictableError(str(error)) from None
    return job, preset, notes


def _number(row, column):
    """Return the whole number in a column, None if it is empty."""
    return whole(row, column) if row[column].strip() else None


def counted(model, sequences):
    """Return the FLOPs of a step as Megatron Core counts them: attention half, since causal."""
    attention = model.layers * 12 * model.heads * model.head_size * model.seq
    return model.flops(sequences) - sequences * model.seq * attention / 2


class Folding:
    """Several meshes (Liu et al., *MoE Parallel Folding*, 2025)."""

    TITLE = "mixtures of experts on H100, Megatron Core and FSDP {cite}`liu2025folding`"
    COLUMNS = frozenset({
        "model", "method", "gpus", "seq", "global_batch", "CP", "TP", "EP", "PP", "ETP", "MFU_pct",
    })  # fmt: skip
    FITTED = (
        "nothing. Assumed: 1F1B, no recomputation, balanced routing, attention counted in full, "
        "gradients in 32 bits"
    )
    MODELS: ClassVar = {
        "Mixtral-8x22B": PRESETS["mixtral-8x22b"],
        "Mixtral-8x22B-G8T8": replace(PRESETS["mixtral-8x22b"], experts=64, active=8, inner=2048),
        "Qwen2-57B-A14B": PRESETS["qwen2-57b-a14b"],
        "Llama3-8x70B": replace(PRESETS["llama3-70b"], experts=8, active=2),
    }
    METHODS: ClassVar = {
        "FSDP": "full", "FSDP+EP": "full",
        "TP+EP+DP": "optimizer", "MCore": "optimizer", "MCore+Folding": "optimizer",
    }  # fmt: skip
    PEAK = 989.4e12

    @classmethod
    def predict(cls, row):
        """Return the `Prediction` of a row; raise `UnpredictableError` if there is none."""
        if row["model"] not in cls.MODELS:
            raise UnpredictableError(f"{row['model']!r} has layers that there is no program for")
        if row["method"] not in cls.METHODS:
            raise UnpredictableError(f"no program for {row['method']!r}")
        degrees = {name: int(row[name].strip() or 1) for name in ("TP", "EP", "PP", "CP")}
        degrees["ETP"] = _number(row, "ETP")  # None: as the other layers
        gpus, batch = whole(row, "gpus"), whole(row, "global_batch")
        model = replace(cls.MODELS[row["model"]], seq=whole(row, "seq"))
        program = Program(
            cls.METHODS[row["method"]], sequence_parallel=degrees["TP"] > 1, fused=True,
            loss="in place",
        )  # fmt: skip
        job, preset, _ = _job(model, program, degrees, gpus, 1, batch, NETWORK)
        measured = model.flops(batch) / (gpus * cls.PEAK * positive(row, "MFU_pct") / 100)
        found = simulate(job)
        return Prediction(
            "MoE, Eos (H100)", preset,
            f"{row['model']}, {gpus} GPUs, {row['method']}: TP{job.tensor} EP{job.expert} "
            f"PP{job.pipeline}, {job.micro_batches} x micro-batch 1; "
            f"{found.memory / 2**30:.0f} GiB",
            measured, found.seconds, job=f"{row['model']} on {gpus} GPUs, batch {batch}",
            context=job.context, fits=(True, found.memory <= job.cluster.gpu.memory),
            kind=kind_of_job(job, found.causes),
        )  # fmt: skip


class Modelzoo:
    """Megatron-MoE-ModelZoo: five plans for Qwen3-235B on 256 H100s, and longer sequences."""

    TITLE = "Qwen3-235B on H100, Megatron Core {cite}`megatron2026modelzoo`"
    COLUMNS = frozenset({
        "model", "system", "precision", "seq", "gpus", "dispatcher", "TP", "CP", "EP", "PP", "ETP",
        "VP", "FSDP", "micro_batch", "global_batch", "recompute", "step_s",
        "model_tflops_per_gpu",
    })  # fmt: skip
    FITTED = (
        "nothing. Assumed: balanced routing, plain all-to-alls; recomputed norms and activations "
        "are not computed again; micro-batches of one where none is printed"
    )

    @classmethod
    def predict(cls, row):
        """Return the `Prediction` of a row; raise `UnpredictableError` if there is none."""
        if row["precision"] != "BF16":
            raise UnpredictableError(f"precision {row['precision']!r} of experts is not simulated")
        if "overlap" in row["note"]:
            raise UnpredictableError("our program does not hide all-to-alls behind other products")
        model = find_model(row["model"], whole(row, "seq"))
        degrees = {name: _number(row, name) for name in ("TP", "CP", "EP", "PP", "ETP")}
        gpus, batch = whole(row, "gpus"), whole(row, "global_batch")
        micro = _number(row, "micro_batch") or 1
        program = Program(
            "full" if row["FSDP"].strip() == "on" else "optimizer",
            "full" if row["recompute"] == "full" else "none", (degrees["TP"] or 1) > 1,
            fused=True, chunks=_number(row, "VP") or 1, loss="in place",
        )  # fmt: skip
        job, preset, notes = _job(model, program, degrees, gpus, micro, batch, row["system"])
        if row["step_s"].strip():
            measured = positive(row, "step_s")
        else:
            rate = positive(row, "model_tflops_per_gpu") * 1e12
            measured = counted(model, batch) / (gpus * rate)
        found = simulate(job)
        known = row["recompute"] in ("", "full")  # other kinds are not computed again here
        fits = (True, found.memory <= job.cluster.gpu.memory) if known else None
        split = " ".join(f"{name}{n}" for name, n in degrees.items() if n)
        return Prediction(
            "Qwen3-235B, ModelZoo", preset,
            f"{row['model']} seq {model.seq}, {gpus} GPUs, {split} x {program.chunks}, "
            f"{row['dispatcher']}, recompute {row['recompute'] or 'none'}; "
            f"{found.memory / 2**30:.0f} GiB",
            measured, found.seconds,
            job=f"{row['model']} on {gpus} GPUs, seq {model.seq}, batch {batch}",
            assumed="; ".join(notes), context=job.context, fits=fits,
            kind=kind_of_job(job, found.causes),
        )  # fmt: skip


class AutoModel:
    """NeMo AutoModel's recipes with FSDP2 and expert parallelism."""

    TITLE = "Qwen3-30B on H100, FSDP2 x EP, AutoModel {cite}`nvidia2026automodel`"
    COLUMNS = frozenset({
        "task", "model", "gpus", "global_batch", "micro_batch", "local_batch", "grad_accum", "seq",
        "TP", "PP", "CP", "EP", "VP", "FSDP", "step_s", "model_tflops_per_gpu",
    })  # fmt: skip
    FITTED = "nothing. Assumed: balanced routing, compiled layers, nothing computed again"

    @classmethod
    def predict(cls, row):
        """Return the `Prediction` of a row; raise `UnpredictableError` if there is none."""
        if row["task"] != "pretrain":
            raise UnpredictableError(f"{row['task']} trains a part of the weights: not simulated")
        match = re.fullmatch(r"Qwen3 MoE (\d+)B", row["model"])
        if not match:
            raise UnpredictableError(f"{row['model']!r} has layers that there is no program for")
        model = find_model(f"qwen3-{match[1]}b-a3b", whole(row, "seq"))
        degrees = {name: _number(row, name) for name in ("TP", "CP", "EP", "PP")}
        gpus, batch, micro = (whole(row, n) for n in ("gpus", "global_batch", "micro_batch"))
        program = Program("full", compiled=True, chunks=_number(row, "VP") or 1)
        job, preset, _ = _job(model, program, degrees, gpus, micro, batch, NETWORK)
        found = simulate(job)
        return Prediction(
            "AutoModel, DGX H100", preset,
            f"{row['model']}, {gpus} GPUs, FSDP{gpus} EP{job.expert}, {job.micro_batches} x "
            f"micro-batch {micro}; {found.memory / 2**30:.0f} GiB",
            positive(row, "step_s"), found.seconds, kind=kind_of_job(job, found.causes),
        )  # fmt: skip


class Bridge:
    """Megatron-Bridge's pairs of runs that differ in one thing: time, peak memory, what fails."""

    TITLE = "Llama 3 70B and Qwen3-30B on H100, Megatron Bridge {cite}`nvidia2026bridge`"
    COLUMNS = frozenset({
        "skill", "model", "hardware", "precision", "seq", "batch", "parallelism", "change",
        "step_s", "model_tflops_per_gpu", "peak_GB", "outcome",
    })  # fmt: skip
    FITTED = "nothing. Assumed: balanced routing, plain all-to-alls, ZeRO-1"
    MODELS = ("Qwen3 30B-A3B", "Llama3 70B")

    @classmethod
    def predict(cls, row):
        """Return the `Prediction` of a row; raise `UnpredictableError` if there is none."""
        if "LoRA" in row["model"]:
            raise UnpredictableError("LoRA trains a part of the weights: not simulated")
        name = row["model"].removesuffix(" SFT")
        if name not in cls.MODELS:
            raise UnpredictableError(f"{row['model']!r} has layers that there is no program for")
        if "overlap on" in row["change"]:
            raise UnpredictableError("our program does not hide all-to-alls behind other products")
        degrees = {n: int(k) for n, k in re.findall(r"([A-Z]+)(\d+)", row["parallelism"])}
        sizes = re.fullmatch(r"mbs (\d+) gbs (\d+)", row["batch"])
        gpus = re.match(r"(\d+) x", row["hardware"])
        if not sizes or not gpus:
            raise UnpredictableError(
                f"no sizes in {row['batch']!r}, or no number of GPUs in {row['hardware']!r}"
            )
        micro, batch, gpus = int(sizes[1]), int(sizes[2]), int(gpus[1])
        model = find_model(name, whole(row, "seq"))
        program = Program(
            "optimizer", sequence_parallel=degrees.get("TP", 1) > 1, fused=True,
            chunks=degrees.get("VP", 1), float8="FP8" in row["precision"], loss="in place",
        )  # fmt: skip
        job, preset, _ = _job(model, program, degrees, gpus, micro, batch, NETWORK)
        found = simulate(job)
        if row["step_s"].strip():
            measured = positive(row, "step_s")
        else:
            rate = positive(row, "model_tflops_per_gpu") * 1e12
            measured = counted(model, batch) / (gpus * rate)
        peak = row["peak_GB"].strip() and (positive(row, "peak_GB") * 1e9, found.memory)
        said = found.memory <= job.cluster.gpu.memory
        return Prediction(
            f"{name}, Megatron-Bridge", preset,
            f"{row['model']}, {gpus} GPUs, {row['parallelism']}, {row['change']}, "
            f"{row['precision']}: {row['outcome']}",
            measured, found.seconds, memory=peak or None, context=job.context,
            fits=("OOM" not in row["outcome"], said) if peak else None,
            kind=kind_of_job(job, found.causes),
        )  # fmt: skip

"""Korthikanti et al., 2022: sequence parallelism and selective recomputation on A100s."""

from functools import lru_cache
from typing import ClassVar

from benchmarks.published.shared.rows import Prediction, UnpredictableError, positive, whole
from benchmarks.published.shared.systems import find_system
from simgpu.plan.errors import kind_of_job
from simgpu.plan.simulate import run, simulate
from simgpu.plan.step.job import Job, Model, Program

VOCABULARY = 51_200
# Words of the tables: recomputation, and whether sequences are split.
VARIANTS = {
    "none": ("none", False),
    "full": ("all", False),
    "full recompute": ("all", False),
    "selective": ("attention", False),
    "sequence parallel": ("none", True),
    "both": ("attention", True),
    "selective + sequence parallel": ("attention", True),
}


def _program(words, chunks=1):
    if words.strip() not in VARIANTS:
        raise UnpredictableError(f"unknown variant {words!r}; known are {', '.join(VARIANTS)}")
    recompute, sequence = VARIANTS[words.strip()]
    return Program(
        "none",
        recompute,
        sequence,
        overlap=True,
        fused=True,
        chunks=chunks,
        loss="in place",
        attention="unfused",
        host_waits=True,
    )


def _model(hidden, heads, layers, seq):
    return Model(hidden, heads, layers, seq, VOCABULARY, dropout=True, biases=True)


class Times:
    """Table 5: seconds of an iteration."""

    TITLE = "GPTs, recomputation and SP {cite}`korthikanti2023reducing`"
    COLUMNS = frozenset({
        "model", "hidden", "heads", "layers", "seq", "TP", "PP", "interleave", "gpus",
        "global_batch", "micro_batch", "recompute", "iteration_s",
    })  # fmt: skip
    FITTED = "nothing: Megatron's kernels; 8 x 200 Gbit/s a node"

    @staticmethod
    def predict(row):
        """Return the `Prediction` of a row; raise `UnpredictableError` if there is none."""
        sizes = [whole(row, name) for name in ("hidden", "heads", "layers", "seq")]
        tensor, pipeline, chunks, gpus, batch, micro = (
            whole(row, name)
            for name in ("TP", "PP", "interleave", "gpus", "global_batch", "micro_batch")
        )
        data = gpus // (tensor * pipeline)
        if data < 1 or batch % (data * micro):
            raise UnpredictableError(f"a batch of {batch} is no multiple of {data} x {micro}")
        cluster, preset = find_system("A100, 8x200", gpus, -(-gpus // 8))
        try:
            job = Job(_model(*sizes), _program(row["recompute"], chunks), cluster, tensor, data,
                      pipeline, micro, batch // (data * micro))  # fmt: skip
        except ValueError as error:
            raise UnpredictableError(str(error)) from None
        what = f"{row['model']} TP{tensor} DP{data} PP{pipeline} x {chunks}, {row['recompute']}"
        measured = positive(row, "iteration_s")
        found = simulate(job)
        return Prediction("Korthikanti, Table 5", preset, what, measured, found.seconds,
                          job=row["model"], kind=kind_of_job(job, found.causes))  # fmt: skip


class Memory:
    """Figure 7: activations of a layer, in percent of those that are kept without recomputation."""

    COLUMNS = frozenset({"model", "variant", "activation_memory_pct_of_no_recompute"})
    FITTED = "nothing: bytes that autograd keeps for a layer, TP 8, sequences of 2048 tokens"
    # Table 3 there: hidden, heads, micro-batch.
    MODELS: ClassVar = {"22B": (6144, 64, 4), "175B": (12288, 96, 1), "530B": (20480, 128, 1),
              "1T": (25600, 160, 1)}  # fmt: skip
    SEQ, TENSOR = 2048, 8

    @classmethod
    def predict(cls, row):
        """Return the `Prediction` of a row; raise `UnpredictableError` if there is none."""
        if row["model"] not in cls.MODELS:
            raise UnpredictableError(
                f"no model is called {row['model']!r}; known are {', '.join(cls.MODELS)}"
            )
        whole_, kept = (cls.kept(row["model"], words) for words in ("none", row["variant"]))
        measured = positive(row, "activation_memory_pct_of_no_recompute") / 100 * whole_
        what = f"{row['model']}, {row['variant']}: {100 * kept / whole_:.2f} %"
        return Prediction("Korthikanti, Figure 7", "a100/nvlink3", what, None, None,
                          memory=(measured, kept))  # fmt: skip

    @classmethod
    @lru_cache(maxsize=64)
    def kept(cls, model, variant):
        """Return the bytes that a further layer keeps for the backward pass."""
        hidden, heads, micro = cls.MODELS[model]
        cluster, _ = find_system("A100", cls.TENSOR, 1)
        sizes = [(n, m) for n in (4, 8) for m in (micro, 2 * micro)]
        peaks = {}
        for n, m in sizes:
            job = Job(_model(hidden, heads, n, cls.SEQ), _program(variant), cluster, cls.TENSOR,
                      micro_batch=m)  # fmt: skip
            peaks[n, m] = run(job).memory
        by_batch = [peaks[n, 2 * micro] - peaks[n, micro] for n in (4, 8)]
        return (by_batch[1] - by_batch[0]) / 4

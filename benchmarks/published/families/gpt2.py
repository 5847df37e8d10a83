"""GPT-2 on one node: nanoGPT and llm.c on 8 A100s."""

import re
from dataclasses import replace

from benchmarks.published.shared.rows import Prediction, UnpredictableError, whole
from benchmarks.published.shared.systems import find_system
from simgpu.plan.errors import kind_of_job
from simgpu.plan.simulate import simulate
from simgpu.plan.step.job import Job, Model, Program

TITLE = "GPT-2 on one node, nanoGPT and llm.c {cite}`karpathy2022nanogpt`"
COLUMNS = {"code", "model", "hardware", "seq", "micro_batch", "tokens_per_step", "ms_per_step"}
FITTED = (
    "nothing. nanoGPT: DDP, gradients in 32 bits, eager if the row says so; llm.c: ZeRO-1, fused "
    "kernels, flash attention"
)
SIZES = {  # hidden, heads, layers
    "124M": (768, 12, 12), "125M": (768, 12, 12), "350M": (1024, 16, 24),
    "355M": (1024, 16, 24), "774M": (1280, 20, 36),
    "1558M": (1600, 25, 48), "1.5B": (1600, 25, 48), "1.6B": (1600, 25, 48),
}  # fmt: skip
VOCABULARY = 50_304
PROGRAMS = {
    "nanogpt": Program("none", compiled=True, loss="compiled"),
    "llm.c": Program("optimizer", fused=True, loss="compiled", reduce_bytes=2),
}


def predict(row):
    """Return the `Prediction` of a row (a dict); raise `UnpredictableError` if there is none."""
    seq, micro, tokens = (whole(row, name) for name in ("seq", "micro_batch", "tokens_per_step"))
    size = next((word for word in re.split(r"[\s-]+", row["model"]) if word in SIZES), None)
    if size is None:
        raise UnpredictableError(
            f"no GPT-2 is called {row['model']!r}; known are {', '.join(SIZES)}"
        )
    code = row["code"].strip()
    if code.lower() not in PROGRAMS:
        raise UnpredictableError(f"unknown program {code!r}; known are {', '.join(PROGRAMS)}")
    found = re.search(r"[\d.]+", row["ms_per_step"])
    gpus = re.match(r"\s*(\d+)\s*x", row["hardware"])
    if not found or not gpus:
        raise UnpredictableError(
            f"no time in {row['ms_per_step']!r}, or no number of GPUs in {row['hardware']!r}"
        )
    gpus = int(gpus[1])
    cluster, preset = find_system(row["hardware"], gpus, -(-gpus // 8))
    if tokens % (gpus * micro * seq):
        raise UnpredictableError(f"{tokens} tokens are no multiple of {gpus} x {micro} x {seq}")
    program = PROGRAMS[code.lower()]
    if "eager" in row["ms_per_step"]:
        program = replace(program, compiled=False, loss="eager")
    job = Job(Model(*SIZES[size], seq, VOCABULARY), program, cluster, data=gpus, micro_batch=micro,
              micro_batches=tokens // (gpus * micro * seq))  # fmt: skip
    what = f"GPT-2 {size}, {row['hardware']}, {job.micro_batches} x micro-batch {micro}"
    note = "the eager time of the two" if "," in row["ms_per_step"] else ""
    step = simulate(job)
    return Prediction(code, preset, what, float(found[0]) * 1e-3, step.seconds, assumed=note,
                      kind=kind_of_job(job, step.causes))  # fmt: skip

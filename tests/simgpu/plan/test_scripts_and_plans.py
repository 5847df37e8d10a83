"""A model as a user's script, and the same model as a plan, take the same time and memory.

The scripts in ``scripts/`` call PyTorch alone, and run under ``simgpu run``; nothing of a plan's
program is in them.
"""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.paths import ROOT

from simgpu.network.cluster import build_cluster
from simgpu.plan.simulate import simulate
from simgpu.plan.step.job import Job, Model, Program

SCRIPTS = Path(__file__).with_name("scripts")
GPT = Model(2048, 16, 8, 2048, 50_304, biases=True)
LLAMA = Model(
    2048, 16, 8, 2048, 32_000, kv_heads=8, inner=7168, gated=True, tied=False
)  # fmt: skip
EXPERTS = replace(LLAMA, inner=2048, experts=8, active=2)
BUFFERED = Program("none", adds=True)  # gradients are added up in 32 bits
# The parameters themselves are changed, all in 16 bits.
LOW = Program("none", weights="bfloat16", reduce_bytes=2)
WHOLE = Program("none", dtype="float32")
SEQUENCE = replace(BUFFERED, sequence_parallel=True, loss="in place")
# What is trained how: script, GPUs, and model, program and sizes of the plan.
CASES = {
    "GPT": ("one_gpu.py", 1, GPT, BUFFERED, {"micro_batch": 8}),
    "Llama": ("one_gpu.py --llama", 1, LLAMA, BUFFERED, {"micro_batch": 8}),
    "all computed again": (
        "one_gpu.py --recompute", 1, GPT, replace(BUFFERED, recompute="full"), {"micro_batch": 8},
    ),
    "DDP": (
        "ddp.py", 8, GPT, replace(BUFFERED, reduce_bytes=2), {"data": 8, "micro_batch": 8},
    ),
    "FSDP2": ("fsdp.py", 8, LLAMA, Program("full"), {"data": 8, "micro_batch": 8}),
    "ZeRO-2": ("fsdp.py --keep", 8, LLAMA, Program("grad_op"), {"data": 8, "micro_batch": 8}),
    "FSDP2, all computed again": (
        "fsdp.py --recompute", 8, LLAMA, Program("full", recompute="full"),
        {"data": 8, "micro_batch": 8},
    ),
    "tensor and sequence parallel": (
        "tensor.py", 8, LLAMA, SEQUENCE, {"tensor": 8, "micro_batch": 8},
    ),
    "pipeline": (
        "pipeline.py", 4, LLAMA, BUFFERED, {"pipeline": 4, "micro_batch": 2, "micro_batches": 8},
    ),
    "experts": (
        "experts.py", 8, EXPERTS, replace(BUFFERED, overlap=False),
        {"data": 8, "expert": 8, "micro_batch": 4},
    ),
    **{
        f"FSDP2, {name}": (
            f"fsdp.py --optimizer {name}", 8, LLAMA, Program("full", optimizer=name),
            {"data": 8, "micro_batch": 8},
        )
        for name in ("adam", "sgd", "sgd-momentum", "adamw-8bit")
    },
    **{
        f"bfloat16 weights, {name}": (
            f"recipe.py --optimizer {name}", 1, LLAMA, replace(LOW, optimizer=name),
            {"micro_batch": 8},
        )
        for name in ("adamw", "sgd", "sgd-momentum", "adamw-8bit", "adafactor", "muon")
    },
    **{
        f"DDP, {name}": (
            f"ddp.py {name}", 8, GPT, replace(LOW, optimizer=name), {"data": 8, "micro_batch": 8},
        )
        for name in ("adafactor", "muon")
    },
    **{
        f"loss {name}": (
            f"recipe.py --loss {name}", 1, LLAMA, replace(LOW, loss=name), {"micro_batch": 8},
        )
        for name in ("chunked", "fused")
    },
    **{
        f"{name} {count} computed again": (
            f"recipe.py --{name} {count}", 1, LLAMA,
            replace(LOW, recompute="full", **{f"recompute_{name}": count}), {"micro_batch": 8},
        )
        for name, count in (("every", 2), ("every", 3), ("first", 3))
    },
    **{
        f"all in {name}": (
            f"recipe.py --dtype {name}", 1, LLAMA, replace(WHOLE, tf32=name == "tf32"),
            {"micro_batch": 8},
        )
        for name in ("float32", "tf32")
    },
    "FSDP2, all in TF32": (
        "fsdp.py --tf32", 8, LLAMA, replace(WHOLE, shard="full", tf32=True),
        {"data": 8, "micro_batch": 8},
    ),
    "FSDP2, bfloat16 weights": (
        "fsdp.py --bfloat16", 8, LLAMA, replace(LOW, shard="full"), {"data": 8, "micro_batch": 8},
    ),
}  # fmt: skip


def run(script, gpus):
    """Return the seconds of a script's step, and the most bytes of a rank."""
    name, *options = script.split()
    words = f"--nproc-per-node {gpus} --gpu h100 --shapes-only --ranks auto --summary json".split()
    command = [sys.executable, "-m", "simgpu", "run", *words, str(SCRIPTS / name), *options]
    out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    found = json.loads(out.splitlines()[-1])
    return found["step_time_seconds"], max(found["peak_memory_bytes"].values())


@pytest.mark.long
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CASES)
def test_a_script_takes_what_its_plan_takes(name):
    script, gpus, model, program, sizes = CASES[name]
    plan = simulate(Job(model, program, build_cluster(gpus, "h100"), **sizes))
    seconds, memory = run(script, gpus)
    assert plan.seconds == pytest.approx(seconds, rel=0.05)
    assert plan.memory == pytest.approx(memory, rel=0.03)

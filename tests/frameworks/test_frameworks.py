"""Trainers as people write them, and other people's frameworks, against gloo on the CPU.

The scripts name ``cuda`` and ``nccl``. ``simgpu run`` starts each of them unchanged; `torchrun`
starts it where it finds no GPU. Where gloo cannot run a framework, one rank is the reference.
requirements-frameworks.txt has the versions; `make test-frameworks` installs them.
"""

import functools
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from simgpu.plan.plans import parse
from simgpu.plan.request import make_request
from simgpu.search.export import flags

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(900)]

TIMEOUT = 400  # seconds; DeepSpeed compiles something at its first start on a CPU
SCRIPTS = Path(__file__).parent / "scripts"
ROOT = SCRIPTS.parents[2]
ENV = os.environ | {
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "TOKENIZERS_PARALLELISM": "0",
}
ENV |= {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled"}
ON_CPU = {"ACCELERATE_USE_CPU": "1", "DS_ACCELERATOR": "cpu"}
ON_CPU["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
# Not by lines: processes that print at the same time mix theirs.
RESULT = re.compile(
    r"(?:rank \d+ )?(?:step \d+ loss|epoch \d+ loss|train loss|parameters) "
    rf"{NUMBER.pattern}(?: (?:norm|eval loss) {NUMBER.pattern})*"
)
EXACT, CLOSE, LOW_PRECISION = 1e-6, 1e-5, 2e-2  # largest relative difference


@dataclass
class Case:
    """A script with its arguments, and what its results are compared with."""

    command: str  # the script and its arguments
    ranks: int = 2
    on_cpu: str | None = None  # further arguments on the CPU
    reference: str | None = None  # another command to run on the CPU
    needs: str | None = None  # a distribution
    tolerance: float = EXACT
    launcher: tuple = field(default=())  # further options of ``simgpu run``


GPT = "small_gpt.py --dtype=float32"
GPT_ON_CPU = "--device=cpu --backend=gloo --compile=False"
CASES = {
    "DDP, a trainer class": Case("ddp_trainer.py 3 {folder}/snapshot.pt"),
    "DDP, processes of its own": Case("spawned.py"),
    "FSDP1": Case("sharded.py --fsdp 2 --flat"),
    "FSDP2": Case("sharded.py --fsdp 2"),
    "FSDP2, bfloat16": Case(
        "sharded.py --fsdp 2 --mixed-precision", reference="sharded.py --fsdp 2",
        tolerance=LOW_PRECISION,
    ),
    "tensor parallel": Case("sharded.py --tp 2"),
    "sequence parallel": Case("sharded.py --tp 2 --sequence"),
    "FSDP2 and tensor parallel": Case("sharded.py --fsdp 2 --tp 2", ranks=4),
    "a GPT in one file": Case(GPT, on_cpu=GPT_ON_CPU),
    "a GPT in one file, bfloat16": Case(
        "small_gpt.py", reference=f"{GPT} {GPT_ON_CPU}", tolerance=LOW_PRECISION
    ),
    "a GPT in one file, float16": Case(
        "small_gpt.py --dtype=float16", reference=f"{GPT} {GPT_ON_CPU}", tolerance=LOW_PRECISION
    ),
    "own tensor parallelism": Case("grid_trainer.py --tp 2"),
    "own pipeline": Case("grid_trainer.py --pp 2"),
    "own pipeline, tensor and data parallelism": Case("grid_trainer.py --tp 2 --pp 2", ranks=4),
    "accelerate, DDP": Case("accelerate_train.py", needs="accelerate"),
    **{
        f"accelerate, FSDP{version}": Case(
            f"accelerate_train.py --fsdp {version}", reference="accelerate_train.py",
            needs="accelerate",
        )
        for version in (1, 2)
    },
    "accelerate, bfloat16": Case(
        "accelerate_train.py --mixed-precision bf16", reference="accelerate_train.py",
        needs="accelerate", tolerance=LOW_PRECISION,
    ),
    "accelerate, float16": Case(
        "accelerate_train.py --mixed-precision fp16", reference="accelerate_train.py",
        needs="accelerate", tolerance=LOW_PRECISION,
    ),
    "transformers' Trainer": Case(
        "hf_trainer.py {folder}", on_cpu="--use-cpu", needs="transformers"
    ),
    "Lightning": Case("lightning_train.py", needs="lightning"),
    "Lightning, bfloat16": Case(
        "lightning_train.py --precision bf16-mixed", reference="lightning_train.py",
        needs="lightning", tolerance=LOW_PRECISION,
    ),
    **{
        f"DeepSpeed, ZeRO {stage}": Case(
            f"deepspeed_train.py --stage {stage}", reference="deepspeed_train.py --stage 0",
            needs="deepspeed",
        )
        for stage in range(4)
    },
}  # fmt: skip


def run(command, env=ENV, **kwargs):
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=TIMEOUT, cwd=SCRIPTS, **kwargs
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def numbers(output):
    """Return the numbers in the results; those of ranks in the order of the ranks."""
    found = [float(x) for text in sorted(RESULT.findall(output)) for x in NUMBER.findall(text)]
    assert found, output
    return found


@functools.cache
def on_cpu(command, ranks):
    """Run a script with gloo; return its results."""
    start = [] if command == "spawned.py" else ["-m", "torch.distributed.run", "--standalone"]
    if start:
        start += ["--local-addr", "127.0.0.1", "--nproc-per-node", str(ranks)]
    return numbers(run([sys.executable, *start, *command.split()], ENV | ON_CPU))


def simulated(command, ranks, *options):
    """Run a script on simulated GPUs; return its output."""
    count = "--gpus-per-node" if command == "spawned.py" else "--nproc-per-node"
    words = ["-m", "simgpu", "run", "--gpu", "h100", count, str(ranks), *options]
    output = run([sys.executable, *words, *command.split()])
    assert f"simulated, not measured: {ranks} x h100" in output, "it used no simulated GPU"
    return output


def need(distribution):
    """Skip a test whose framework is not there; nothing is imported."""
    try:
        version(distribution)
    except PackageNotFoundError:
        pytest.skip(f"the framework {distribution} is not installed: make test-frameworks")


@pytest.mark.parametrize("name", CASES)
def test_losses_equal_those_on_the_cpu(name, tmp_path):
    case = CASES[name]
    if case.needs:
        need(case.needs)
    reference = case.reference or f"{case.command} {case.on_cpu or ''}"
    for folder in ("cpu", "gpu"):
        (tmp_path / folder).mkdir()
    expected = on_cpu(reference.format(folder=tmp_path / "cpu").strip(), case.ranks)
    found = numbers(simulated(case.command.format(folder=tmp_path / "gpu"), case.ranks))
    assert found == pytest.approx(expected, rel=case.tolerance, abs=case.tolerance * 1e-2)


CHECKS = {  # simgpu check: arguments on both GPUs, on one
    "transformers": ("hf_trainer.py", "{folder} --batch-size 4", "{folder} --batch-size 8"),
    "lightning": ("lightning_train.py", "--batch-size 8", "--batch-size 16 --devices 1"),
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_of_a_trainer_finds_nothing(name, tmp_path):
    need(name)
    script, both, one = (text.format(folder=tmp_path) for text in CHECKS[name])
    words = ["-m", "simgpu", "check", script, "--nproc-per-node", "2", "--steps", "6"]
    output = run([sys.executable, *words, "--one", one, "--", *both.split()])
    assert output.startswith(f"equal: {script} on one GPU and on 2, in 6 steps")


def test_a_trainer_resumes_from_the_snapshot_of_real_processes(tmp_path):
    whole = on_cpu(f"ddp_trainer.py 3 {tmp_path}/whole.pt", 2)
    on_cpu(f"ddp_trainer.py 2 {tmp_path}/snapshot.pt", 2)
    output = simulated(f"ddp_trainer.py 3 {tmp_path}/snapshot.pt", 2)
    assert output.count("resumes after epoch 1") == 2
    rest = numbers(output)  # of each rank: its last loss, and the sum of the parameters
    assert rest == pytest.approx([whole[i] for i in (2, 3, 6, 7)], rel=EXACT)


@pytest.mark.parametrize("split", ["--tp 2", "--pp 2", "--tp 2 --pp 2", "--distributed-optimizer"])
def test_megatron_trains_as_on_one_rank(split):
    need("megatron-core")
    ranks = 2 ** max(1, split.count(" 2"))
    if split == "--distributed-optimizer":  # two replicas with it train as two without
        expected = numbers(simulated("megatron_train.py", 2))
    else:
        expected = megatron_alone()
    found = numbers(simulated(f"megatron_train.py {split}", ranks))
    assert found == pytest.approx(expected, rel=CLOSE)


@functools.cache
def megatron_alone():
    return numbers(simulated("megatron_train.py", 1))


LLAMA, OSS = ("llama3", "llama3_8b"), ("gpt_oss", "gpt_oss_20b")  # of torchtitan


@pytest.mark.parametrize(
    ("model", "name", "base", "recomputes"),
    [
        ("llama3-70b", "tp8,pp4,mb1,zero1", LLAMA, "NoneType"),
        ("llama3-70b", "tp8,pp2,mb2,zero1,chunks2,recompute=full", LLAMA, "FullAC.Config"),
        ("llama3-70b", "tp4,mb1,zero3,recompute=selective", LLAMA, "SelectiveAC.Config"),
        ("llama3-70b", "tp2,cp4,mb1,zero2,recompute=core_attn", LLAMA, "NoneType"),
        ("llama3-8b", "tp8,mb1,zero0", LLAMA, "NoneType"),
        ("mixtral-8x7b", "tp2,pp2,ep4,etp1,mb1,zero1", OSS, "NoneType"),
        ("mixtral-8x7b", "tp2,ep8,mb1,zero3", OSS, "NoneType"),
    ],
)
def test_torchtitan_takes_the_flags_of_a_plan(model, name, base, recomputes):
    need("torchtitan")
    from torchtitan.config.manager import ConfigManager

    plan = parse(name)
    job = replace(make_request(model, gpus=64, gpu="h100", global_batch=64), plan=plan).job()
    lines = flags("torchtitan", plan, job).splitlines()
    words = " ".join(line for line in lines if not line.startswith("#")).split()
    found = ConfigManager().parse_args(["--module", base[0], "--config", base[1], *words])
    split, training = found.parallelism, found.training
    assert (split.tensor_parallel_degree, split.pipeline_parallel_degree) == (plan.tp, plan.pp)
    assert (split.context_parallel_degree, split.expert_parallel_degree) == (plan.cp, plan.ep)
    degrees = split.data_parallel_shard_degree, split.data_parallel_replicate_degree
    assert degrees == ((job.replicas, 1) if plan.shard else (1, job.replicas))
    assert (training.seq_len, training.global_batch_size) == (job.model.seq, 64)
    kept = {2: "never", 3: "always"}.get(plan.shard, "default")
    assert split.fsdp_reshard_after_forward == kept
    if plan.pp > 1:
        assert training.local_batch_size == plan.micro_batch * job.micro_batches
        assert split.pipeline_parallel_microbatch_size == plan.micro_batch
        assert job.model.layers == split.pipeline_parallel_layers_per_stage * job.stages
        kind = "Interleaved1F1B" if job.program.chunks > 1 else "1F1B"
        assert split.pipeline_parallel_schedule == kind
    else:  # gradients of several are added up to the global batch
        assert training.local_batch_size == plan.micro_batch
    assert type(found.activation_checkpoint).__qualname__ == recomputes


TITAN = "-m torchtitan.train --module titan_config --config small --training.disable_cuda_graphs"
TITAN += " --parallelism.spmd_backend partial_dtensor --dump_folder {folder}"


@pytest.mark.parametrize("split", ["", "--parallelism.tensor_parallel_degree 2"])
def test_torchtitan_trains_its_debug_model(split, tmp_path):
    need("torchtitan")
    command = [sys.executable, "-m", "simgpu", "run", "--gpu", "h100", "--nproc-per-node", "2"]
    words = f"{TITAN} {split}".format(folder=tmp_path).split()
    done = subprocess.run(
        [*command, *words], env=ENV | {"PYTHONPATH": f"{ROOT}:{SCRIPTS}"}, cwd=SCRIPTS,
        capture_output=True, text=True, timeout=TIMEOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "simulated, not measured: 2 x h100" in done.stdout
    losses = [float(x) for x in re.findall(r"loss: +(\d+\.\d+)", done.stdout + done.stderr)]
    assert len(losses) == 8
    assert losses[::2] == losses[1::2], "both ranks log the mean of all"
    assert losses[0] == pytest.approx(8.1, abs=0.2)
    assert losses[0] - losses[-1] > 2

"""Families of training steps, on rows that are made up: columns, assumptions, refusals."""

import json
from dataclasses import replace

import pytest

from benchmarks.published import __main__ as published
from benchmarks.published import best_splits, tables
from benchmarks.published.families import experts, large_models, nanotron
from benchmarks.published.score import score
from benchmarks.published.shared.models import find_model
from benchmarks.published.shared.resnets import balance
from benchmarks.published.shared.rows import Prediction, UnpredictableError
from simgpu.plan.presets import PRESETS
from simgpu.plan.simulate import Simulated
from simgpu.plan.step.job import Model, PlanError

ROWS = {
    "llmfoundry": {
        "Model": "125m", "SeqLen (T)": "512", "# GPUs": "8", "GPU": "a100_80gb",
        "MicroBatchSize": "8", "GradAccum": "1", "GlobalBatchSize": "64",
        "Throughput (T/s/GPU)": "100000", "Precision": "amp_bf16", "MP Mode": "DEFAULT",
        "Sharding Strategy": "FULL_SHARD", "Activation Checkpointing": "False",
        "Activation CPUOffload": "False",
    },
    "torchtitan": {
        "model": "8B", "gpus": "8", "parallelism": "FSDP 8", "techniques": "compile",
        "seq": "2048", "local_batch": "1", "activation_checkpointing": "full",
        "tokens_per_s_per_gpu": "6000", "peak_GiB": "40",
    },
    "megatron 2021": {
        "hidden": "1024", "layers": "4", "heads": "16", "TP": "2", "PP": "1", "gpus": "8",
        "global_batch": "16", "micro_batch": "4", "layers_per_virtual_stage": "",
        "tflops_per_gpu": "100",
    },
    "megatron 2024": {
        "heads": "16", "hidden": "2048", "layers": "4", "TP": "2", "PP": "1", "DP": "4",
        "gpus": "8", "global_batch": "4", "tflops_per_gpu": "300", "MFU_pct": "30",
    },
    "korthikanti times": {
        "model": "tiny", "hidden": "1024", "heads": "16", "layers": "4", "seq": "1024", "TP": "2",
        "PP": "1", "interleave": "1", "gpus": "8", "global_batch": "4", "micro_batch": "1",
        "recompute": "full", "iteration_s": "0.01",
    },
    "korthikanti memory": {
        "model": "22B", "variant": "sequence parallel",
        "activation_memory_pct_of_no_recompute": "50",
    },
    "nanotron": {
        "params_B": "1.34", "nodes": "1", "gpus": "8", "DP": "8", "TP": "1", "PP": "1",
        "grad_accum": "1", "micro_batch": "1", "zero": "ZeRO-1", "MFU_pct": "40",
        "memory_GB": "20",
    },
    "gpt2": {
        "code": "nanoGPT", "model": "124M", "hardware": "8x A100 80GB", "seq": "1024",
        "micro_batch": "4", "tokens_per_step": "32768", "ms_per_step": "~50 eager, ~30 compiled",
    },
    "resnet50": {
        "system": "DGX A100", "gpus": "1", "precision": "AMP", "images_per_s": "2000",
    },
    "torchgpipe": {
        "model": "ResNet-50", "experiment": "pipeline-1", "partitions": "1", "micro_batches": "1",
        "samples_per_s": "100",
    },
    "moe folding": {
        "model": "Qwen2-57B-A14B", "method": "MCore+Folding", "gpus": "16", "seq": "2048",
        "global_batch": "16", "CP": "1", "TP": "2", "EP": "8", "PP": "1", "ETP": "1",
        "MFU_pct": "30",
    },
    "internevo": {
        "test": "throughput", "gpus": "8", "TP": "2", "zero1_group": "all DP", "seq": "2048",
        "micro_batch": "1", "grad_accum": "1", "activation_ckpt": "off",
        "tokens_per_s_per_gpu": "4000",
    },
    "moe modelzoo": {
        "model": "Qwen3-30B-A3B", "system": "H100", "precision": "BF16", "seq": "1024",
        "gpus": "8", "dispatcher": "all-to-all", "TP": "1", "CP": "1", "EP": "8", "PP": "1",
        "ETP": "1", "VP": "1", "FSDP": "", "micro_batch": "", "global_batch": "8",
        "recompute": "", "step_s": "0.5", "model_tflops_per_gpu": "", "note": "",
    },
    "automodel": {
        "task": "pretrain", "model": "Qwen3 MoE 30B", "gpus": "8", "global_batch": "8",
        "micro_batch": "1", "local_batch": "1", "grad_accum": "1", "seq": "1024", "TP": "1",
        "PP": "1", "CP": "1", "EP": "8", "VP": "1", "FSDP": "8", "step_s": "0.5",
        "model_tflops_per_gpu": "100",
    },
    "bridge": {
        "skill": "made up", "model": "Qwen3 30B-A3B", "hardware": "8 x H100", "precision": "BF16",
        "seq": "1024", "batch": "mbs 1 gbs 8", "parallelism": "TP1 PP1 CP1 EP8",
        "change": "overlap off", "step_s": "", "model_tflops_per_gpu": "60", "peak_GB": "50",
        "outcome": "OOM", "mark": "",
    },
    "megascale": {
        "model": "small", "hidden": "1024", "heads": "16", "layers": "4", "seq": "1024",
        "TP": "2", "PP": "1", "interleave": "1 (R)", "global_batch": "8",
        "method": "Megatron-LM", "gpus": "8", "iteration_s": "0.02",
    },
    "megatron b200": {
        "case": "made up", "model": "Llama 3 70B shape", "layers": "2", "gpus": "8",
        "gpu": "B200 (one node)", "TP": "4", "PP": "1", "DP": "2", "CP": "1", "EP": "1",
        "seq": "1024", "micro_batch": "1", "micro_batches": "2", "precision": "bf16",
        "step_ms_measured": "50", "peak_alloc_GiB_measured": "30",
    },
    "large models": {
        "source": "made up", "model": "Llama2 7B", "hardware": "8x A100", "gpus": "8",
        "precision": "bf16", "parallelism": "HSDP no AC", "seq": "1024", "global_batch": "",
        "micro_batch": "1", "tokens_per_s_per_gpu": "3000", "tflops_per_gpu": "",
    },
}  # fmt: skip


def predict(family, **changes):
    row = ROWS[family] | changes
    table = tables.predict(family, [row])
    if table.refused:
        raise UnpredictableError(table.refused[0][1])
    return table.predictions[0]


@pytest.mark.slow
@pytest.mark.parametrize("family", ROWS)
def test_a_row_of_each_family(family):
    assert tables.find_family(ROWS[family]) == family
    for column in tables.FAMILIES[family].COLUMNS:
        assert tables.find_family(ROWS[family].keys() - {column}) != family
    p = predict(family)
    assert 0.1 < p.ratio < 10
    assert p.system
    assert p.what


def test_every_family_has_a_row():
    assert {*ROWS, "collectives", "more messages", "vtrain"} == set(tables.FAMILIES)


@pytest.mark.slow
def test_times_that_rows_say_by_rates():
    assert predict("llmfoundry").measured == pytest.approx(8 * 512 / 100_000)
    assert predict("torchtitan").measured == pytest.approx(2048 / 6000)
    assert predict("torchtitan").memory[0] == 40 * 2**30
    assert predict("large models").measured == pytest.approx(1024 / 3000)
    assert predict("resnet50").measured == pytest.approx(256 / 2000)
    assert predict("torchgpipe").measured == pytest.approx(32 / 100)
    assert predict("gpt2").measured == pytest.approx(0.05)
    h, s, layers, v = 1024, 2048, 4, 51_200
    counted = 96 * 16 * s * layers * h**2 * (1 + s / (6 * h) + v / (16 * layers * h))
    assert predict("megatron 2021").measured == pytest.approx(counted / 8 / 100e12)


def test_shapes_from_numbers_of_parameters():
    for billions in nanotron.SHAPES:
        assert nanotron.find_model(billions).parameters / 1e9 == pytest.approx(billions, rel=0.005)


@pytest.mark.parametrize(
    ("family", "changes", "reason"),
    [
        ("llmfoundry", {"Model": "9b"}, "no model is called 'mpt 9b'"),
        ("llmfoundry", {"Sharding Strategy": "MAGIC"}, "FULL_SHARD"),
        ("llmfoundry", {"MP Mode": "ODD"}, "MP mode 'ODD'"),
        ("llmfoundry", {"Activation CPUOffload": "True"}, "moved to the host"),
        ("llmfoundry", {"Precision": "fp8"}, "precision 'fp8'; known are 16 and 32 bits"),
        ("llmfoundry", {"GPU": "voodoo"}, "no preset fits 'voodoo'"),
        ("llmfoundry", {"GlobalBatchSize": "63"}, "no multiple"),
        ("llmfoundry", {"Throughput (T/s/GPU)": "fast"}, "'fast'"),
        ("torchtitan", {"parallelism": "FSDP 4 EP 2"}, "no program for EP"),
        ("torchtitan", {"model": "9B"}, "llama3 9B"),
        ("torchtitan", {"activation_checkpointing": "some"}, "checkpointing 'some'"),
        ("torchtitan", {"gpus": "9"}, "9 GPUs"),
        ("megatron 2021", {"hidden": "large"}, "hidden is 'large'"),
        ("megatron 2021", {"heads": "15"}, "15 heads cannot be split in 2"),
        ("megatron 2021", {"global_batch": "15"}, "no multiple"),
        ("megatron 2024", {"DP": "3"}, "not the table's 8 GPUs"),
        ("korthikanti times", {"recompute": "twice"}, "unknown variant 'twice'"),
        ("korthikanti memory", {"model": "1B"}, "no model is called '1B'"),
        ("nanotron", {"params_B": "5"}, "5.0 billion parameters"),
        ("nanotron", {"zero": "ZeRO-9"}, "ZeRO-9"),
        ("nanotron", {"DP": "4"}, "is not 8 GPUs"),
        ("gpt2", {"model": "9M"}, "no GPT-2 is called '9M'"),
        ("gpt2", {"code": "mine"}, "unknown program 'mine'"),
        ("gpt2", {"ms_per_step": "soon"}, "no time in 'soon'"),
        ("resnet50", {"precision": "INT3"}, "precision 'INT3'"),
        ("torchgpipe", {"model": "VGG"}, "no model is called 'VGG'"),
        ("moe modelzoo", {"precision": "MXFP8"}, "'MXFP8' of experts"),
        ("moe modelzoo", {"note": "all-to-all overlap"}, "does not hide"),
        ("moe modelzoo", {"global_batch": "9"}, "no multiple of 8 replicas x 1"),
        ("moe modelzoo", {"gpus": "8", "PP": "16"}, "no multiple of 0 replicas"),
        ("automodel", {"task": "lora"}, "part of the weights"),
        ("automodel", {"model": "GPT-OSS 120B"}, "layers that there is no program for"),
        ("bridge", {"change": "EP overlap on"}, "does not hide"),
        ("bridge", {"batch": "many"}, "no sizes in 'many'"),
        ("bridge", {"model": "Qwen3-8B LoRA"}, "part of the weights"),
        ("megascale", {"method": "MegaScale"}, "changes the model"),
        ("megascale", {"global_batch": "7"}, "no multiple"),
        ("megatron b200", {"model": "DeepSeek-V2"}, "layers that there is no program for"),
        ("megatron b200", {"TP": "3"}, "8 GPUs"),
        ("large models", {"global_batch": "many"}, "global_batch is 'many'"),
    ],
)
def test_rows_that_get_a_sentence(family, changes, reason):
    with pytest.raises(UnpredictableError, match=reason):
        predict(family, **changes)


@pytest.mark.slow
def test_rows_that_split_sequences():
    """Two ranks share a sequence: twice the GPUs, the same tokens, half the work of each."""
    one = predict("torchtitan", parallelism="FSDP 8")
    two = predict("torchtitan", parallelism="FSDP 4 CP 2", seq="4096")
    assert (one.context, two.context) == (1, 2)
    assert two.measured == pytest.approx(4096 / 2 / 6000)
    assert 0.8 < two.predicted / one.predicted < 1.6
    assert predict("large models", parallelism="HSDP CP2", seq="2048").context == 2


@pytest.mark.slow
def test_states_in_groups_gather_in_the_node():
    """InternEvo's parameters of a group stay in a node, its gradients do not."""
    rows = {"gpus": "16", "TP": "1"}
    every, group = (predict("internevo", **rows, zero1_group=g) for g in ("all DP", "8"))
    assert group.predicted < every.predicted


@pytest.mark.slow
def test_numbers_of_32_bits():
    half, whole, tf32 = (
        predict("resnet50", precision=name).predicted for name in ("AMP", "FP32", "TF32")
    )
    assert half < tf32 < whole
    slow = predict("llmfoundry", Precision="fp32").predicted
    assert slow > 1.5 * predict("llmfoundry").predicted


@pytest.mark.slow
def test_whether_it_fits_is_told_beside_what_was_said():
    assert predict("bridge").fits == (False, True)
    assert predict("bridge", outcome="completed").fits == (True, True)
    assert predict("bridge", peak_GB="").fits is None
    assert predict("moe modelzoo").fits == (True, True)
    assert predict("moe modelzoo", recompute="norm,act").fits is None


@pytest.mark.parametrize("name", ["GPT-3 125M", "gpt3-125m", "GPT3 125M"])
def test_names_of_models_are_read_as_people_write_them(name):
    assert find_model(name, 512) == replace(PRESETS["gpt3-125m"], seq=512)


def test_half_of_the_attention_is_counted():
    """6 N tokens, and 6 h s for each layer and token, not 12."""
    model = Model(64, 4, 2, 128, 1000)
    assert model.flops(3) - experts.counted(model, 3) == 3 * 128 * 2 * 6 * 64 * 128


def test_large_models_by_their_words():
    assert [large_models._shard(w) for w in ("HSDP", "FSDP 8", "TP8 PP2")] == [
        "hybrid", "full", "optimizer",
    ]  # fmt: skip
    assert [large_models._recompute(w) for w in ("HSDP no AC", "FSDP AC", "TP8")] == [
        "none", "full", "none",
    ]  # fmt: skip
    assert large_models._micro_batches("16M tokens", 8192, 64, 1) == 32


@pytest.mark.slow
def test_a_table_with_memory_only(tmp_path, capsys):
    names = list(ROWS["korthikanti memory"])
    path = tmp_path / "table.csv"
    path.write_text(",".join(names) + "\n22B,full recompute,7\n22B,what,7\n", encoding="utf-8")
    assert published.main([str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = json.loads(lines[-1])
    assert (found["rows"], found["memory"]["rows"], found["not_predicted"]) == (0, 1, 1)
    assert found["memory"]["median_error"] == pytest.approx(0.08, abs=0.03)
    assert any("MiB" in line for line in lines[1:2])


def test_memory_and_orders_within_jobs_by_hand():
    def p(job, measured, predicted, memory=None):
        return Prediction("x", "p", "w", measured, predicted, memory=memory, job=job)

    found = score([p("a", 1, 1), p("a", 2, 3), p("a", 3, 2), p("b", 9, 1), p("b", 1, 9)])
    assert found["within_jobs"] == {"jobs": 1, "mean": 0.5}
    assert "memory" not in found
    found = score([p("", 1, 1, (10, 11)), p("", 1, 1, (10, 8)), p("", 1, 1)])
    assert found["memory"] == {"rows": 2, "median_error": 0.15, "worst_error": 0.2}


def test_where_a_published_split_comes():
    """Faster with more tensor parallelism here, but eight do not fit."""
    job, _ = nanotron.job_of(ROWS["nanotron"])

    def step(job):
        if job.pipeline > 1:
            raise PlanError("no pipelines")
        return Simulated(10 - job.tensor, 2**40 if job.tensor == 8 else 2**30)

    found = best_splits.place(job, step)
    assert found.best != found.what
    assert 1 < found.place <= found.splits
    assert found.loss == pytest.approx(9 / 6 - 1)
    assert "TP4" in found.best


def test_balance_by_hand():
    assert balance([1, 1, 1, 1], 2) == [2, 2]
    assert balance([5, 1, 1, 1], 2) == [1, 3]
    assert balance([1, 2, 3, 4, 5], 3) == [3, 1, 1]

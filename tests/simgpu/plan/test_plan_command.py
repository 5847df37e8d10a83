"""The command ``simgpu plan``: its report, JSON, models from files, and what it refuses."""

import json
import subprocess
import sys

import pytest
from support.programs.plan_command import plan

import simgpu
from simgpu.__main__ import main
from simgpu.network.nccl_memory import CONTEXT, GROUP
from simgpu.plan.errors import MEMORY_SPLIT
from simgpu.plan.model_file import find_model, read
from simgpu.plan.presets import PRESETS, SOURCES
from simgpu.plan.step.job import PlanError

SMALL = {
    "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 4, "vocab_size": 4096,
    "max_position_embeddings": 256,
}  # fmt: skip


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL), encoding="utf-8")
    return path


def test_the_report_says_what_a_step_takes(small, capsys):
    code, text = plan(capsys, small, "--gpus", 4, "--gpu", "h100")
    assert code == 0
    for words in ("simulated, not measured", "4 x h100 on nvlink4", "ZeRO stage 3", "step time",
                  "tokens/s", "MFU", "of a GPU's 80 GiB; ", " reserved", "limited by"):  # fmt: skip
        assert words in text, words


def test_the_same_as_json(small, capsys):
    found = json.loads(plan(capsys, small, "--gpus", 4, "--global-batch", 16, "--json")[1])
    assert found["tokens_per_step"] == 16 * SMALL["max_position_embeddings"]
    rate = found["tokens_per_step"] / found["step_time_seconds"]
    assert found["tokens_per_second"] == pytest.approx(rate)
    assert found["tokens_per_second_per_gpu"] == pytest.approx(rate / 4)
    assert sum(found["time_shares"].values()) == pytest.approx(1)
    assert found["limited_by"] == max(found["time_shares"], key=found["time_shares"].get)
    assert found["fits"] is True
    assert found["peak_memory_bytes"] <= found["peak_reserved_bytes"] < 2 * 2**30
    one_group = [CONTEXT[i] + GROUP[i] for i in (0, 1)]
    assert found["uncounted_memory_bytes"] == one_group
    flops = found["mfu_share"] * 4 * found["peak_flop_per_second"] * found["step_time_seconds"]
    assert flops == pytest.approx(read(SMALL, "").flops(16))


@pytest.mark.parametrize(("options", "is_split"), [((), False), (("--tp", 2), True)])
def test_peaks_of_split_layers_may_be_higher(small, capsys, options, is_split):
    text = plan(capsys, small, "--gpus", 4, *options)[1]
    assert (f"were up to {MEMORY_SPLIT:g} times the predicted ones: here up to" in text) is is_split


def test_a_model_that_does_not_fit_is_said_to(capsys):
    code, text = plan(capsys, "gpt3-6.7b", "--gpus", 1, "--shard", 0)
    assert code == 0
    assert "DOES NOT FIT" in text


def test_any_machine(small, tmp_path, capsys):
    """A GPU of a file, with another memory, and a network that has no name."""
    gpu = tmp_path / "next.json"
    flops = {"float64": 4e13, "float32": 8e13, "tf32": 2e15, "bfloat16": 4e15, "float16": 4e15}
    sizes = {"name": "next", "flops": flops, "memory_bandwidth": 1.3e13, "memory": 2**38}
    text = {"format": "simgpu GPU 1", "gpu": sizes, "link": "nvlink5"}
    gpu.write_text(json.dumps(text), encoding="utf-8")
    machine = ["--gpus", 16, "--gpu", gpu, "--memory", "40GB", "--json"]
    slow, fast = (
        json.loads(plan(capsys, small, *machine, "--network", network)[1])
        for network in ("10GB/s:8", "50GB/s:8")
    )
    assert slow["hardware"] == "2 nodes of 8 x next on nvlink5, joined by 10GB/s:8"
    assert slow["gpu_memory_bytes"] == 40 * 2**30
    assert slow["step_time_seconds"] > fast["step_time_seconds"]
    usual = json.loads(plan(capsys, small, *machine)[1])
    assert usual["hardware"] == "2 nodes of 8 x next on nvlink5, joined by ndr"
    assert usual["step_time_seconds"] == pytest.approx(fast["step_time_seconds"])


REFUSED = {
    "--tp 3": "--tp 3 x --pp 1 x --cp 1 = 3 does not divide --gpus 8; give 9 GPUs",
    "--tp 8 --gpus 0": "--gpus 0: give a positive integer",
    "--tp 8 --pp 2": "= 16 does not divide --gpus 8; give 16 GPUs",
    "--tp 0": "--tp 0: give a positive integer",
    "--global-batch 0": "--global-batch 0: give a positive integer",
    "--gpus 12": "--gpus 12 does not fill nodes of 8; give a multiple, or --gpus-per-node",
    "--pp 8": "4 layers cannot be split in 8 (--pp); give one of 1, 2, 4",
    "--tp 4 --heads": "unrecognized arguments",
    "--ep 2": "has no experts; leave it out",
    "--etp 2": "has no experts; leave it out",
    "--global-batch 12": "--global-batch 12 is no multiple of 8: 8 replicas x --micro-batch 1; "
    "give 16",
    "--pp 4 --global-batch 4": "--schedule 1f1b needs 4 micro-batches, one for each stage (--pp 4)"
    ", and --global-batch 4 gives 2; give --global-batch 8, or --schedule gpipe",
    "--pp 2 --schedule interleaved --global-batch 12": "needs a multiple of 2 micro-batches",
    "--chunks 2": "--chunks 2 needs --schedule interleaved",
    "--schedule interleaved": "needs --pp 2 or more",
    "--dtype float8": "a100 has no such units; give bfloat16, float16",
    "--network x --gpus 16": "unknown network 'x'",
    "--gpu x": "unknown GPU 'x'",
    "--memory x": "--memory: 'x' is not a size of memory",
}


@pytest.mark.parametrize("options", REFUSED)
def test_what_does_not_fit_together(small, capsys, options):
    code, text = plan(capsys, small, *options.split())
    assert code == 2
    assert REFUSED[options] in text


def test_experts_that_ranks_cannot_share(capsys):
    code, text = plan(capsys, "mixtral-8x7b", "--gpus", 4, "--ep", 8)
    assert code == 2
    assert "--ep 8: 8 groups of 1 ranks, which split an expert (--etp), do not divide the 4" in text


def test_experts_on_a_mesh_of_their_own(capsys):
    code, text = plan(capsys, "mixtral-8x7b", "--tp", 2, "--ep", 8, "--etp", 1, "--shard", 3)
    assert code == 0
    assert "TP 2 EP 8 DP 4 ETP 1, ZeRO stage 3" in text


def test_configurations_as_others_write_them():
    llama = {
        "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "head_dim": 128,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
        "vocab_size": 128256, "max_position_embeddings": 8192, "tie_word_embeddings": False,
        "hidden_act": "silu", "rope_theta": 500000.0,
    }  # fmt: skip
    assert read(llama, "") == PRESETS["llama3-8b"]
    gpt2 = {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
            "n_inner": None, "vocab_size": 50257}  # fmt: skip
    assert read(gpt2, "") == PRESETS["gpt2-124m"]
    mixtral = llama | {
        "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2,
        "vocab_size": 32000, "max_position_embeddings": 32768,
    }  # fmt: skip
    assert read(mixtral, "") == PRESETS["mixtral-8x7b"]
    qwen = {
        "model_type": "qwen2_moe", "hidden_size": 3584, "intermediate_size": 18944,
        "max_position_embeddings": 32768, "moe_intermediate_size": 2560, "num_attention_heads": 28,
        "num_experts": 64, "num_experts_per_tok": 8, "num_hidden_layers": 28,
        "num_key_value_heads": 4, "shared_expert_intermediate_size": 20480, "head_dim": 128,
        "tie_word_embeddings": False, "vocab_size": 151936, "mlp_only_layers": [],
    }  # fmt: skip
    assert read(qwen, "") == PRESETS["qwen2-57b-a14b"]


def test_models_have_the_parameters_that_their_names_say():
    billions = {"qwen2-57b-a14b": (57, 14), "qwen3-30b-a3b": (30, 3), "qwen3-235b-a22b": (235, 22),
                "mixtral-8x7b": (46.7, 12.9)}  # fmt: skip
    for name, (total, active) in billions.items():
        model = PRESETS[name]
        idle = model.layers * (model.experts - model.active) * model.expert_parameters
        assert model.parameters / 1e9 == pytest.approx(total, rel=0.03)
        assert (model.parameters - idle) / 1e9 == pytest.approx(active, rel=0.13)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": None}, "lacks vocabulary or vocab_size; add it"),
        ({"num_hidden_layers": 0}, "layers is 0; give a positive integer"),
        ({"hidden_size": "512"}, "hidden is '512'; give a positive integer"),
        ({"num_attention_heads": 7}, "7 heads do not divide the hidden size 512"),
        ({"kv_lora_rank": 512}, "kv_lora_rank: latent attention"),
        ({"first_k_dense_replace": 1}, "first_k_dense_replace: some layers without experts"),
        ({"num_local_experts": 8}, "give both experts and active"),
        ({"num_local_experts": 2, "num_experts_per_tok": 4}, "4 of 2 experts cannot work"),
        ({"gated": 1}, "gated is 1; give true or false"),
    ],
)
def test_configurations_that_say_too_little(changes, message):
    with pytest.raises(PlanError) as error:
        read(SMALL | changes, "x.json")
    assert "x.json" in str(error.value)
    assert message in str(error.value)


def test_names_that_are_no_models(tmp_path):
    with pytest.raises(PlanError, match=r"unknown model 'llama9'; did you mean 'llama\d-\d+b'\?"):
        find_model("llama9")
    with pytest.raises(PlanError, match=r"unknown model 'xyz'.*llama3-8b.*function model\(\)"):
        find_model("xyz")
    with pytest.raises(PlanError, match="cannot be read"):
        find_model(str(tmp_path / "none.json"))


def test_presets_have_sources():
    for name in PRESETS:
        assert name.partition("-")[0] in SOURCES


OWN = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(1000, 256)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True) for _ in range(2)
        )
        self.head = nn.Linear(256, 1000)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())

def model():
    return Net()

def batch(size):
    return torch.zeros(size, 128, dtype=torch.int64)
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN, encoding="utf-8")
    return path


@pytest.mark.parametrize("options", [(), ("--shard", 0), ("--recompute", "full")])
def test_a_model_of_ones_own(own, capsys, options):
    options = (*options, "--gpus", 4, "--global-batch", 16, "--json")
    found = json.loads(plan(capsys, own, *options)[1])
    assert found["tokens_per_step"] == 16 * 128
    assert found["parameters"] == 256 * 1000 + 257 * 1000 + 2 * 789_760
    # 6 FLOPs for each weight of a product and token, and unfused or fused attention.
    weights = 256 * 1000 + 2 * 12 * 256**2
    flops = found["mfu_share"] * found["peak_flop_per_second"] * found["step_time_seconds"] * 4
    assert flops == pytest.approx(6 * weights * 16 * 128, rel=0.12)


def test_gradients_of_a_model_of_ones_own_are_summed_once_a_step(own, capsys):
    """Over a slow network the sum takes most of a step, so another micro-batch adds little."""
    options = ("--shard", 0, "--gpus", 16, "--network", "ethernet100", "--micro-batch", 1, "--json")
    one, two = (
        json.loads(plan(capsys, own, *options, "--global-batch", 16 * n)[1]) for n in (1, 2)
    )
    assert one["time_shares"]["communication"] > 0.6
    assert two["step_time_seconds"] < 1.4 * one["step_time_seconds"]


@pytest.mark.parametrize("options", [(), ("--shard", 0), ("--recompute", "full")])
def test_a_model_of_ones_own_can_be_compiled(own, capsys, options):
    """Whole, or block by block if it is sharded: faster, in the memory of one more kernel."""
    options = (*options, "--gpus", 4, "--global-batch", 4096, "--micro-batch", 1024, "--json")
    eager, compiled = (
        json.loads(plan(capsys, own, *options, *more)[1]) for more in ((), ("--compiled",))
    )
    assert compiled["step_time_seconds"] < 0.9 * eager["step_time_seconds"]
    one = 1024 * 128 * 256 * 4  # what a kernel writes
    assert compiled["peak_memory_bytes"] <= eager["peak_memory_bytes"] + one


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (OWN, "--tp 2", "--tp 2 cannot split"),
        (OWN, "--sequence 7", "batch(size) in"),
        (OWN, "--shard 1", "--shard 1 comes later for a .py file; give 0 or 3"),
        (OWN, "--recompute selective", "give full or none"),
        (OWN, "--recompute core_attn", "core_attn comes later"),
        (OWN.replace("def model", "def modell"), "", "no function model; add def model()"),
        (OWN.replace("def batch", "def batsh"), "", "no function batch; add def batch(size)"),
        (OWN.replace("return Net()", "return 1"), "", "model() returned int; return a torch"),
        (OWN.replace("return torch.zeros", "return 1; torch.zeros"), "", "batch(size) returned"),
    ],
)
def test_what_a_file_must_have(tmp_path, capsys, text, options, message):
    path = tmp_path / "own.py"
    path.write_text(text, encoding="utf-8")
    code, printed = plan(capsys, path, *options.split())
    assert code == 2
    assert message in printed


def test_all_times_of_a_model_of_ones_own_have_a_cause(own):
    """Also where more micro-batches are extrapolated."""
    for options in ({"shard": 0}, {"recompute": "full"}, {"micro_batch": 2}):
        report = simgpu.plan(own, gpus=4, global_batch=32, **options)
        assert sum(report.time_shares.values()) == pytest.approx(1)


def test_the_command_as_a_function(capsys):
    options = {"gpus": 4, "gpu": "a100", "tp": 2, "global_batch": 8, "recompute": "full"}
    report = simgpu.plan("gpt2-124m", **options, compiled=True, network=None)
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    assert main(["plan", "gpt2-124m", *words, "--compiled", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(report.to_dict()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"microbatch": 2}, "unknown option 'microbatch'; did you mean 'micro_batch'"),
        ({"search": True}, "unknown option 'search'"),
        ({"tp": 5}, "--tp 5"),
        ({"tp": "2"}, "--tp 2: give a positive integer"),
        ({"recompute": "some"}, "--recompute some: give one of none, core_attn, selective, full"),
        ({"shard": 4}, "--shard 4: give one of 0, 1, 2, 3"),
        ({"dtype": "int4"}, "--dtype int4: a100 has no such units"),
        ({"gpu": "a101"}, "a101"),
    ],
)
def test_the_function_raises_errors(options, message):
    with pytest.raises(simgpu.plan.PlanError if "gpu" not in options else ValueError) as error:
        simgpu.plan("gpt2-124m", **({"gpus": 4} | options))
    assert message in str(error.value)


@pytest.mark.long
@pytest.mark.process
def test_the_packages_are_functions_and_are_imported_when_they_are_used():
    program = """
import sys, simgpu
assert not {"simgpu.plan", "simgpu.compare"} & sys.modules.keys()
assert callable(simgpu.compare) and callable(simgpu.plan)
assert "torch.distributed.pipelining" not in sys.modules
from simgpu.plan import PlanError
assert simgpu.plan.PlanError is PlanError
assert simgpu.plan("gpt2-124m", gpus=1).gpus == 1
assert "model" in str(__import__("inspect").signature(simgpu.plan))
assert not hasattr(simgpu, "plans")
"""
    subprocess.run([sys.executable, "-c", program], check=True)

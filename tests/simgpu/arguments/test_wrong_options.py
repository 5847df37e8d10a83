"""Options and files that are accepted by no command: one line, which names value and remedy."""

import json

import pytest
from support.programs.plan_command import plan

import simgpu
from simgpu.__main__ import main
from simgpu.nearest import unknown

GPU = {
    "name": "mine", "memory_bandwidth": 1e12, "memory": 80e9,
    "flops": dict.fromkeys(("float32", "tf32", "bfloat16", "float16"), 1e14),
}  # fmt: skip
SIZES = {
    "hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2, "vocab_size": 128,
    "max_position_embeddings": 32,
}  # fmt: skip


def errors_of(capsys, *arguments):
    """Return the lines of a command's error."""
    try:
        code = main([*map(str, arguments)])
    except SystemExit as error:
        code = error.code
    assert code == 2
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flops": GPU["flops"] | {"int3": 1}}, "flops has int3; known are float64, float32"),
        ({"multiprocessors": 1.5}, "multiprocessors is 1.5; give a whole number"),
        ({"memory": 0.001}, "memory is 0.001 bytes, and no GPU's; give 1e+06 to 1e+16 bytes"),
        ({"memory_bandwidth": 1e-300}, "memory_bandwidth is 1e-300 bytes/s, and no GPU's"),
        ({"flops": GPU["flops"] | {"tf32": 1e-9}}, "flops of tf32 is 1e-09 FLOP/s"),
        ({"memory": 10**400}, "memory is 1000"),
    ],
)
def test_numbers_that_no_gpu_has(tmp_path, capsys, change, message):
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps({"format": "simgpu GPU 1", "gpu": GPU}))
    assert main(["gpus", str(path)]) == 0
    path.write_text(json.dumps({"format": "simgpu GPU 1", "gpu": GPU | change}))
    line, _ = errors_of(capsys, "gpus", path)
    assert message in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "cannot be read: maximum recursion depth"),
        (json.dumps(SIZES | {"hidden_size": 10**30}), "give a positive integer up to 100,000,000"),
        (json.dumps(SIZES | {"vocab_size": 10**400}), "give a positive integer up to 100,000,000"),
        (json.dumps(SIZES | {"n_head": 0, "num_attention_heads": 0}), "heads is 0"),
    ],
)
def test_models_that_cannot_be(tmp_path, capsys, text, message):
    path = tmp_path / "model.json"
    path.write_text(text)
    line, _ = errors_of(capsys, "plan", path)
    assert message in line
    assert len(line) < 400


def test_a_model_that_ends_the_program(tmp_path, capsys):
    path = tmp_path / "model.py"
    path.write_text("import sys\nsys.exit(0)\n")
    line, _ = errors_of(capsys, "plan", path)
    assert "model.py calls sys.exit(); keep that under if __name__ == '__main__'" in line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpus-per-node", 0], "--gpus-per-node 0: give a positive integer"),
        (["--top", 0], "--top 0: give a positive integer"),
        (["--top", -1, "--search"], "--top -1: give a positive integer"),
        (["--jobs", 0], "--jobs 0: give a positive integer"),
        (["--network", ""], "unknown network ''"),
    ],
)
def test_wrong_options_of_plan(capsys, options, message):
    line, _ = errors_of(capsys, "plan", "gpt2-124m", *options)
    assert message in line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpus-per-node", 0], "--gpus-per-node 0: give a positive number"),
        (["--gpus-per-node", -1], "--gpus-per-node -1: give a positive number"),
        (["--max-restarts", -1], "--max-restarts -1: give zero or more"),
        (["--nnodes", "2:1"], "--nnodes 2:1: give the least number first"),
        (["--nnodes", "x:2"], "--nnodes x:2: give a positive number"),
        (["--master-port", "x"], "--master-port 'x': give a number up to 65535"),
        (["--master-port", 65536], "--master-port '65536'"),
        (["--local-ranks-filter", ""], "--local-ranks-filter '': give numbers"),
        (["--steps", 0], "--steps 0: give a positive number"),
        (["--network", ""], "unknown network ''"),
        (["--nnodes", 12_500_000], "100,000,000 GPUs are too many to simulate"),
    ],
)
def test_wrong_options_of_run(tmp_path, capsys, options, message):
    script = tmp_path / "train.py"
    script.write_text("")
    given = ["run", "--nproc-per-node", 8 if "--nnodes" in options else 2, *options, script]
    line, _ = errors_of(capsys, *given)
    assert message in line


def test_the_function_raises_the_error_that_it_says():
    with pytest.raises(simgpu.plan.PlanError, match="did you mean 'ndr'"):
        simgpu.plan("gpt2-124m", gpus=16, network="xdr")


@pytest.mark.parametrize("nprocs", [True, 2.0, 0])
def test_numbers_of_ranks(nprocs):
    with pytest.raises(ValueError, match="give a positive int"):
        simgpu.spawn(print, nprocs=nprocs)


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["rnu"], "unknown command 'rnu'; did you mean 'run'?"),
        (["gpus", "H10"], "did you mean 'h100'?"),
        (["plan", "llama3-8"], "unknown model 'llama3-8'; did you mean 'llama3-8b'?"),
        (["plan", "gpt2-124m", "--gpu", "h10"], "unknown GPU 'h10'; did you mean 'h100'?"),
        (
            ["plan", "gpt2-124m", "--link", "nvlnk4"],
            "unknown Link 'nvlnk4'; did you mean 'nvlink4'",
        ),
        (["plan", "gpt2-124m", "--micro-bach", "8"], "--micro-bach (did you mean --micro-batch?)"),
        (
            ["run", "--nproc-per-nod=2", "--shape-only", "train.py"],
            "--nproc-per-nod=2 (did you mean --nproc-per-node?) --shape-only (did you mean "
            "--shapes-only?)",
        ),
    ],
)
def test_what_is_misspelled_is_said_with_the_nearest_name(capsys, arguments, near):
    line, help_ = errors_of(capsys, *arguments)
    assert near in line
    assert help_.startswith("`simgpu ")
    assert "--help" in help_


def test_what_is_like_no_name_is_said_with_all():
    assert unknown("GPU", "x", ["v100", "h100"]) == "unknown GPU 'x'; give one of v100, h100"


def test_abbreviations_stay_refused(capsys):
    _, text = plan(capsys, "gpt2-124m", "--micro", "2")
    assert "unrecognized arguments: --micro" in text

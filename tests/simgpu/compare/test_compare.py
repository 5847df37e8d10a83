"""A run beside published and simulated ones."""

import json
from dataclasses import replace

import pytest

import simgpu
from simgpu.__main__ import main
from simgpu.bands.find import Band
from simgpu.bands.kinds import Kind
from simgpu.compare.published import distance, nearest, published
from simgpu.compare.verdict import judge


def test_a_row_is_nearest_to_itself():
    for row in published():
        assert nearest(row, 1)[0][0] == 0
        assert distance(row, row) == 0


def test_the_same_gpu_comes_before_the_same_sizes():
    row = published()[0]
    other = replace(row, gpu="another")
    far = replace(row, billions=row.billions * 500, gpus=row.gpus * 64, sequence=131_072)
    assert nearest(row, 2, [other, far])[0][1] is far
    assert distance(row, replace(row, experts=not row.experts)) > distance(row, far)


def test_distance_is_symmetric_and_has_no_short_cuts():
    rows = published()[::20]
    for a in rows:
        for b in rows:
            assert distance(a, b) == pytest.approx(distance(b, a))
            assert all(distance(a, b) <= distance(a, c) + distance(c, b) + 1e-9 for c in rows)


KIND = Kind("h100", "16-bit", "", "", "one node")
BAND = Band(KIND, 40, 3, 0.85, 1.35, 1.1)


@pytest.mark.parametrize(
    ("ratio", "word"),
    [(1.0, "reasonable"), (1.3, "reasonable"), (1.4, "slower"), (0.84, "faster")],
)
def test_the_verdict_follows_the_band(ratio, word):
    assert judge(ratio, BAND).startswith(word)


@pytest.mark.parametrize("band", [None, replace(BAND, rows=9)])
def test_no_verdict_where_too_few_steps_were_published(band):
    """Not even on times that would be far outside of the band."""
    for ratio in (0.1, 1.0, 9.0):
        assert judge(ratio, band, 64).startswith(f"cannot tell: {ratio:.2f} times")


def test_a_run_with_split_contexts_has_no_band(capsys):
    words = ["compare", "gpt2-124m", "--gpus", "8", "--gpu", "a100", "--cp", "2"]
    assert main([*words, "--step-time", "0.1"]) == 0
    text = capsys.readouterr().out
    assert "how sure: not known: no step of this kind was published" in text
    assert "verdict: cannot tell" in text
    assert "nine of ten" not in text


def test_the_rate_of_one_gpu_is_recognised():
    assert "Give that of all 64" in judge(64 * 1.1, BAND, 64)
    assert "all" not in judge(2.2, BAND, 2)
    assert "all" not in judge(20, BAND, 64)


RUN = ["compare", "gpt2-124m", "--gpus", "8", "--gpu", "a100", "--json"]


def test_time_rate_and_mfu_are_one_number(capsys):
    def found(*words):
        assert main([*RUN, *words]) == 0
        return json.loads(capsys.readouterr().out)

    first = found("--step-time", "0.1")
    rate, mfu = first["measured_tokens_per_second"], 100 * first["measured_mfu_share"]
    for words in (("--tokens-per-second", str(rate)), ("--mfu", str(mfu))):
        assert found(*words)["measured_step_time_seconds"] == pytest.approx(0.1)
    usual = first["predicted_step_time_seconds"] * first["band"]["median"]
    assert found("--step-time", str(usual))["verdict"].startswith("reasonable")


@pytest.mark.parametrize(
    "words", [("--mfu", "120"), ("--mfu", "0.45"), ("--step-time", "0"), ("--mfu", "nan")]
)
def test_bad_numbers_are_named(words, capsys):
    with pytest.raises(SystemExit):
        main([*RUN, *words])
    assert " ".join(words) in capsys.readouterr().err


def test_the_command_as_a_function(capsys):
    comparison = simgpu.compare("gpt2-124m", gpus=8, gpu="a100", mfu=30)
    assert main([*RUN, "--mfu", "30"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(comparison.to_dict()))
    assert main([*RUN[:-1], "--mfu", "30"]) == 0
    assert capsys.readouterr().out == f"{comparison}\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "0 numbers of the run; give one of tokens_per_second, step_time, mfu"),
        ({"mfu": 30, "step_time": 1.0}, "2 numbers of the run; give one"),
        ({"mfu": 30, "gpu_per_node": 8}, "did you mean 'gpus_per_node'"),
    ],
)
def test_the_function_raises_errors(options, message):
    with pytest.raises(simgpu.plan.PlanError) as error:
        simgpu.compare("gpt2-124m", gpus=1, **options)
    assert message in str(error.value)


def test_a_model_without_sizes_is_not_compared(tmp_path, capsys):
    path = tmp_path / "own.py"
    program = (
        "import torch\nmodel = lambda: torch.nn.Linear(2, 2)\nbatch = lambda n: torch.ones(n, 2)"
    )
    path.write_text(program, encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["compare", str(path), "--mfu", "30"])
    assert "own.py: give a preset or a .json file; sizes are compared" in capsys.readouterr().err


@pytest.mark.exhaustive
def test_changes_are_tried_and_the_fastest_comes_first(capsys, tmp_path):
    sizes = {
        "hidden_size": 1024, "num_attention_heads": 8, "num_hidden_layers": 4, "vocab_size": 8192,
        "max_position_embeddings": 1024, "hidden_act": "silu",
    }  # fmt: skip
    model = tmp_path / "small.json"
    model.write_text(json.dumps(sizes), encoding="utf-8")
    command = ["compare", str(model), "--gpus", "4", "--gpu", "h100", "--tp", "2", "--batch", "16"]
    assert main([*command, "--recompute", "full", "--step-time", "0.1", "--try", "--json"]) == 0
    tried = json.loads(capsys.readouterr().out)["try"]
    gains = [one["faster_share"] for one in tried if one["fits"]]
    assert gains == sorted(gains, reverse=True)
    assert {"--recompute none", "--tp 1"} <= {one["option"] for one in tried}

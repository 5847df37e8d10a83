"""Faults from public reports, in programs of our own: named as they are, silent once repaired."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

REPORTS = Path(__file__).parent / "reports"
FAULTS = {  # report -> quantity, first step, a part of the cause, a part of the line that is named
    "accelerate_2926": (
        "learning rate", 3, "the scheduler advances 2 times a step", "self.scheduler.step()",
    ),
    "accelerate_3979": ("types", 1, "the master weights are kept in bfloat16", "optimizer.step()"),
    "accelerate_4071": (
        "examples", 7, "the sampler is at the same epoch", "return super().__iter__()",
    ),
    "automodel_3157": ("loss", 1, "2 times too small: each GPU divides", "loss.backward()"),
    "buildnanogpt_30": (
        "parameters", 1, "their gradients differ between the ranks", "optimizer.step()",
    ),
    "deepspeed_5066": ("collectives", 1, "an expert without tokens", "dist.all_reduce("),
    "lightly_1977": ("gradients", 1, "2 times too small: each GPU divides", "optimizer.step()"),
    "opentslm_49": ("parameters", 1, "not its .module", "optimizer.step()"),
    "transformers_37474": ("loss", 1, "divide each rank's sum by what all", "loss.backward()"),
    "veomni_184": ("gradients", 1, "√2 times too small: the norm that", "optimizer.step()"),
}  # fmt: skip


@pytest.mark.parametrize("report", FAULTS)
def test_a_reported_fault_is_named(simgpu_check, report):
    path = REPORTS / f"{report}.py"
    code, printed, found = simgpu_check(path, "--steps", "8")
    first = found["findings"][0]
    quantity, step, cause, line = FAULTS[report]
    assert (code, first["quantity"], first["step"]) == (1, quantity, step)
    assert cause in first["cause"]
    name, _, number = first["line"].partition(":")
    assert name == path.name
    assert line in path.read_text(encoding="utf-8").splitlines()[int(number) - 1]
    assert printed.out.startswith("differs: ")


@pytest.mark.parametrize("report", FAULTS)
def test_once_repaired_it_is_equal(simgpu_check, report):
    code, printed, found = simgpu_check(
        REPORTS / f"{report}.py", "--steps", "8", args=["--repaired"]
    )
    assert (code, found["findings"], found["not_compared"]) == (0, [], ""), printed.out
    assert found["steps"] >= 4


def test_there_is_a_program_for_each_report():
    assert {path.stem for path in REPORTS.glob("*.py")} == set(FAULTS)


def test_gradients_in_parts_of_a_sequence_are_off_by_the_same_factor(simgpu_check):
    _, _, found = simgpu_check(REPORTS / "automodel_3157.py", gpus=4)
    loss, gradients = found["findings"]
    assert loss["cause"].startswith("4 times too small")
    assert gradients["one"] == pytest.approx(4 * gradients["many"])
    assert gradients["cause"] == "as for the loss"


def test_lost_updates_are_counted(simgpu_check):
    _, printed, _ = simgpu_check(REPORTS / "accelerate_3979.py", "--steps", "1")
    text = " ".join(printed.out.split())
    assert "568 of 576 elements with a gradient stayed the same" in text

"""A record of simulated time, memory and bytes, and what turns a check red."""

import json

import pytest

from simgpu.check.command import main

pytestmark = pytest.mark.slow

SCRIPT = """
import os, sys, torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(4))).cuda()
for layer in model:
    fully_shard(layer, reshard_after_forward="--reshard" in sys.argv)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(64, 1024, device="cuda")
for _ in range(5):
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture
def against(own_process, tmp_path, capsys):
    """Return a function that writes a record, or compares with it: code, output, report."""
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    record, report = tmp_path / "record.json", tmp_path / "report.json"

    def run(what, *args, options=()):
        words = ["--nproc-per-node", "4", f"--{what}", str(record), "--json", str(report)]
        code = main([*words, *options, str(tmp_path / "train.py"), *args])
        found = json.loads(report.read_text(encoding="utf-8")) if report.exists() else None
        return code, capsys.readouterr(), found

    return run


def test_the_same_program_has_the_same_numbers(against, tmp_path):
    assert against("record")[0] == 0
    code, printed, found = against("against", options=["--growth", "0"])
    assert (code, found["grown"], found["now"]) == (0, [], found["before"])
    assert printed.out.startswith("within 0 % of ")


def test_what_reshards_sends_more(against):
    against("record")
    code, printed, found = against("against", "--reshard")
    assert code == 1
    assert "bytes_sent_per_step" in found["grown"]
    ratio = found["now"]["bytes_sent_per_step"] / found["before"]["bytes_sent_per_step"]
    assert ratio == pytest.approx(3 / 2, rel=0.02)  # it gathers once more; then reduces
    assert printed.out.startswith("grown: ")
    assert against("against", "--reshard", options=["--growth", "60"])[0] == 0


def test_what_does_not_reshard_takes_more_memory(against):
    against("record", "--reshard")
    code, _, found = against("against")
    assert (code, found["grown"]) == (1, ["peak_memory_bytes"])


def test_other_hardware_is_not_compared(against):
    against("record")
    code, printed, _ = against("against", options=["--gpu", "h100"])
    assert code == 2
    assert printed.out.startswith("cannot tell: the record is for 4 x a100")


def test_a_file_that_is_no_record_is_refused(against, tmp_path):
    for content in ("{}", "no", '{"format": "simgpu check record 1"}'):
        (tmp_path / "record.json").write_text(content, encoding="utf-8")
        with pytest.raises(SystemExit) as error:
            against("against")
        assert error.value.code == 2


def test_two_steps_are_needed(against):
    code, printed, _ = against("record", options=["--steps", "1"])
    assert code == 2
    assert "fewer than two training steps" in printed.err

"""Snapshots of memory: PyTorch's format, which its own tools read."""

import pickle

import pytest
from torch.cuda import _memory_viz as viz

START = """
import os, pickle, torch
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
"""


@pytest.fixture
def snapshot(simgpu_run, tmp_path):
    """Run a script that writes a snapshot on each rank; return that of rank 1."""

    def run(source):
        source = START + source.replace("FILE", f"f'{tmp_path}/{{rank}}.pickle'")
        code, _, err = simgpu_run(source, "--nproc-per-node", "2")
        assert code == 0, err
        return pickle.loads((tmp_path / "1.pickle").read_bytes())

    return run


RECORDED = """
torch.cuda.memory._record_memory_history(max_entries=1000)
def make():
    return [torch.ones(300 * (i + 1), 1000, device="cuda") for i in range(3)]
large, tensors = torch.ones(3000, 1000, device="cuda"), make()
del tensors[1]
small = torch.ones(100 + rank, device="cuda") + 1
torch.cuda.memory._dump_snapshot(FILE)
found = torch.cuda.memory._snapshot()
used = [b for s in found["segments"] for b in s["blocks"] if b["state"] == "active_allocated"]
assert sum(b["requested_size"] for b in used) == torch.cuda.memory_allocated()
assert sum(s["total_size"] for s in found["segments"]) == torch.cuda.memory_reserved()
assert torch.cuda.memory_snapshot() == found["segments"]
"""


def test_it_has_what_is_allocated_and_what_was(snapshot):
    found = snapshot(RECORDED)
    assert {segment["device"] for segment in found["segments"]} == {1}
    assert {s["segment_type"] for s in found["segments"]} == {"small", "large"}
    none, entries = found["device_traces"]
    assert none == []
    sizes = [(e["action"], e["size"]) for e in entries if not e["action"].startswith("segment")]
    whole = [-(-4000 * rows // 512) * 512 for rows in (3000, 300, 600, 900)]
    assert sizes == [
        *(("alloc", size) for size in whole),
        ("free_requested", whole[2]), ("free_completed", whole[2]),
        ("alloc", 512), ("alloc", 512), ("free_requested", 512), ("free_completed", 512),
    ]  # fmt: skip
    reserved = sum(e["size"] for e in entries if e["action"] == "segment_alloc")
    assert reserved == sum(segment["total_size"] for segment in found["segments"])
    times = [entry["time_us"] for entry in entries]
    assert times == sorted(times)
    names = [frame["name"] for frame in entries[3]["frames"]]
    assert "make" in names
    assert names[-1] == "<module>"
    starts = {segment["address"] for segment in found["segments"]}
    assert {e["addr"] for e in entries if e["action"] == "segment_alloc"} == starts


def test_pytorch_s_own_tools_read_it(snapshot):
    found = snapshot(RECORDED)
    total = sum(segment["total_size"] for segment in found["segments"])
    assert f"total_reserved: {viz.Bytes(total)}" in viz.segsum(found)
    assert "cudaMalloc" in viz.trace(found)
    assert "snapshot.pickle" in viz.trace_plot(found)
    assert "snapshot.pickle" in viz.segment_plot(found)
    assert "train.py" in viz.memory(found, format_flamegraph=str)


def test_without_a_history_it_has_the_segments_alone(snapshot):
    found = snapshot(
        """
x = torch.ones(1000, device="cuda")
torch.cuda.memory._dump_snapshot(FILE)
"""
    )
    assert len(found["segments"]) == 1
    assert found["device_traces"] == [[], []]
    assert "total_allocated: 4.0KiB" in viz.segsum(found)


def test_it_records_no_more_than_was_asked_for(snapshot):
    found = snapshot(
        """
record = torch.cuda.memory._record_memory_history
record("state")
x = torch.ones(1000, device="cuda")
blocks = [b for s in torch.cuda.memory._snapshot()["segments"] for b in s["blocks"]]
(block,) = [b for b in blocks if b["frames"]]
assert block["state"] == "active_allocated"
assert torch.cuda.memory._snapshot()["device_traces"][rank] == []
record(max_entries=2, context=None)
kept = [torch.ones(1000, device="cuda") for _ in range(5)]
torch.cuda.memory._dump_snapshot(FILE)
record(None)
kept = None
assert torch.cuda.memory._snapshot()["device_traces"][rank] == []
try:
    record("some")
except ValueError as error:
    assert "got 'some'" in str(error)
else:
    raise AssertionError
"""
    )
    assert [e["action"] for e in found["device_traces"][1]] == ["alloc", "alloc"]
    assert not any(entry["frames"] for entry in found["device_traces"][1])

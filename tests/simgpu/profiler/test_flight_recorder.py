"""The flight recorder: what a rank has called, and files after a hang that PyTorch's tool reads."""

import gc
import json
import pickle

import pytest
import torch
import torch.distributed as dist
from torch.distributed.flight_recorder.components.builder import build_db
from torch.distributed.flight_recorder.components.config_manager import JobConfig
from torch.distributed.flight_recorder.components.loader import read_dir

import simgpu as sim
from simgpu.ranks.communication.flight_recorder import settings
from simgpu.ranks.communication.flight_recorder.entries import scalar_type

NAMES = ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DUMP_ON_TIMEOUT")
NAMES += ("TORCH_NCCL_DEBUG_INFO_TEMP_FILE",)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Ask for files, as a script's environment does; return their folder."""
    values = "100", "1", str(tmp_path / "dumps" / "nccl_trace_rank_")
    for name, value in zip(NAMES, values, strict=True):
        monkeypatch.setenv(name, value)
    return tmp_path / "dumps"


def hang(program, k=4):
    """Run a program whose ranks wait for ever; return the message."""

    def with_group(rank):
        dist.init_process_group()
        program(rank, torch.accelerator.current_accelerator())

    with pytest.raises(sim.RanksError) as caught:
        sim.spawn(with_group, nprocs=k)
    return str(caught.value)


def analyse(folder):
    """Return what PyTorch's analyser finds: calls that are not as they should be."""
    args = JobConfig().parse_args([str(folder)])
    details, version = read_dir(args)
    gc.enable()  # it leaves the collector off
    collectives = build_db(details, args, version).collectives
    return [c for c in collectives if c.missing_ranks or not c.pass_check]


def read(folder, rank):
    """Return the file of a rank."""
    return pickle.loads((folder / f"nccl_trace_rank_{rank}").read_bytes())


def test_the_analyser_names_the_rank_that_skips_a_collective(files):
    def program(rank, device):
        x = torch.ones(4, 2, device=device)
        dist.broadcast(x, 1)
        if rank != 2:
            dist.all_reduce(x)

    message = hang(program)
    assert f"torchfrtrace --prefix nccl_trace_rank_ {files}" in message
    (found,) = analyse(files)
    assert found.collective_name == "nccl:all_reduce"
    assert found.missing_ranks == {2}
    assert found.collective_seq_id == 2
    assert found.collective_state == "started"
    assert found.input_sizes == [[4, 2]]
    assert any("test_flight_recorder.py" in f["filename"] for f in found.collective_frames)


def test_the_analyser_names_the_rank_that_calls_another_one(files):
    def program(rank, device):
        x = torch.ones(8 if rank == 1 else 4, device=device)
        dist.all_reduce(x)

    assert "rank 1 calls all_reduce of 8 float32" in hang(program)
    (found,) = analyse(files)
    assert found.missing_ranks is None  # the others have gone on until they hang
    assert [*found.mismatch_collectives] == [1]
    assert found.mismatch_collectives[1].input_sizes == [[8]]


def test_the_analyser_finds_a_rank_in_a_part_of_all(files):
    def program(rank, device):
        pairs = [dist.new_group([first, first + 1]) for first in (0, 2)]
        x = torch.ones(4, device=device)
        dist.all_gather_into_tensor(torch.empty(8, device=device), x, group=pairs[rank // 2])
        if rank != 3:
            dist.barrier(pairs[rank // 2])

    hang(program)
    (found,) = analyse(files)
    assert (found.collective_name, found.missing_ranks) == ("nccl:all_reduce_barrier", {3})
    assert found.expected_ranks == {2, 3}


def every_call(rank, device):
    """Make calls of all kinds, and then one that the last rank does not make."""
    one, two, four = (torch.ones(n, device=device) for n in (1, 2, 4))
    size = dist.get_world_size()
    dist.all_reduce(four.bfloat16())
    dist.reduce(four, 1)
    dist.all_gather([torch.empty(1, device=device) for _ in range(size)], one)
    dist.all_gather([torch.empty(i + 1, device=device) for i in range(size)],
                    torch.ones(rank + 1, device=device))  # fmt: skip
    dist.reduce_scatter_tensor(one.clone(), torch.ones(size, device=device))
    dist.reduce_scatter(two.clone(), [two] * size)
    dist.all_to_all_single(torch.empty(size, device=device), torch.ones(size, device=device))
    dist.gather(one, [torch.empty(1, device=device) for _ in range(size)] if rank == 0 else None)
    dist.scatter(two.clone(), [two] * size if rank == 0 else None)
    ring = [dist.P2POp(dist.isend, two, (rank + 1) % size)]
    ring += [dist.P2POp(dist.irecv, two.clone(), (rank - 1) % size)]
    for work in dist.batch_isend_irecv(ring):
        work.wait()
    if rank != size - 1:
        dist.barrier()


def test_calls_of_all_kinds_match(files):
    hang(every_call)
    (found,) = analyse(files)
    assert found.collective_name == "nccl:all_reduce_barrier"
    entries = read(files, 2)["entries"]
    assert [e["profiling_name"].removeprefix("nccl:") for e in entries] == [
        "all_reduce", "reduce", "all_gather", *["_broadcast_oop"] * 4, "_reduce_scatter_base",
        "reduce_scatter", "all_to_all", "gather", "scatter",
        "send 2->3", "recv 2<-1", "coalesced", "all_reduce_barrier",
    ]  # fmt: skip
    assert [e["record_id"] for e in entries] == [*range(16)]
    assert entries[0]["input_dtypes"] == ["BFloat16"]
    assert entries[2]["output_sizes"] == [[4, 1]]
    assert [e["p2p_seq_id"] for e in entries[-4:]] == [1] * 4
    assert [e["is_p2p"] for e in entries[-4:]] == [True] * 3 + [False]
    times = [e["time_created_ns"] for e in entries]
    assert times == sorted(times)
    assert {e["state"] for e in entries[:-1]} == {"completed"}
    assert read(files, 2)["pg_status"]["0"] == {
        "last_enqueued_collective": 13,
        "last_started_collective": 13,
        "last_completed_collective": 12,
    }


def test_calls_behind_one_that_hangs_have_not_started(files):
    def program(rank, device):
        x, y = torch.ones(4, device=device), torch.ones(4, device=device)
        works = [dist.all_reduce(t, async_op=True) for t in (x, y) if rank or t is x]
        works[-1].wait()

    hang(program)
    assert [e["state"] for e in read(files, 1)["entries"]] == ["completed", "started"]

    def behind(rank, device):
        if rank:
            tensors = [torch.ones(4, device=device) for _ in range(2)]
            [dist.all_reduce(t, async_op=True) for t in tensors][1].wait()

    hang(behind)
    assert [e["state"] for e in read(files, 1)["entries"]] == ["started", "scheduled"]
    assert read(files, 0)["entries"] == []


def test_calls_that_nobody_waits_for_count_too(files):
    def program(rank, device):
        if rank:
            dist.all_reduce(torch.ones(4, device=device), async_op=True)

    assert "the program has ended with unmatched calls" in hang(program)
    assert analyse(files)[0].missing_ranks == {0}


def test_only_what_was_asked_for_is_written(files, monkeypatch):
    def program(rank, device):
        for _ in range(3):
            dist.broadcast(torch.ones(4, device=device), 0)
        if rank:
            dist.barrier()

    for name, value in ((NAMES[0], "0"), (NAMES[0], None), (NAMES[1], "0")):
        with monkeypatch.context() as changed:
            changed.setenv(name, value) if value else changed.delenv(name)
            assert "flight recorder" not in hang(program)
            assert not files.exists()
    monkeypatch.setenv(NAMES[0], "2")
    monkeypatch.setenv("TORCH_INCLUDE_STACK_TRACE", "0")
    hang(program)
    entries = read(files, 1)["entries"]
    assert [e["record_id"] for e in entries] == [2, 3]  # the last ones
    assert "frames" not in entries[0]
    monkeypatch.setenv(NAMES[2], "/dev/null/x")
    assert "flight recorder: cannot write /dev/null/x0" in hang(program)


def test_wrong_settings_are_named(monkeypatch):
    monkeypatch.setenv(NAMES[0], "many")
    with pytest.raises(ValueError, match="TORCH_NCCL_TRACE_BUFFER_SIZE=many: give a number"):
        settings.read()
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "7")  # counts more than the old name
    monkeypatch.delenv(NAMES[2], raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert settings.read() == settings.Settings(7, True, True, "/cache/torch/comm_lib_trace_rank_")
    monkeypatch.setenv(NAMES[1], "3")
    with pytest.raises(ValueError, match="TORCH_NCCL_DUMP_ON_TIMEOUT=3: give 1 or 0"):
        settings.read()


def test_types_have_the_names_of_pytorch_in_c():
    for dtype in (
        *(torch.float16, torch.float32, torch.float64, torch.bfloat16, torch.bool),
        *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    ):
        assert torch.empty(0, dtype=dtype).type() == f"torch.{scalar_type(dtype)}Tensor"
    assert scalar_type(torch.complex64) == "ComplexFloat"
    assert scalar_type(torch.float8_e4m3fn) == "Float8_e4m3fn"


def test_a_program_asks_for_its_own_calls(files):
    def program(rank):
        dist.init_process_group()
        x = torch.ones(4, device="sim")
        dist.all_reduce(x)
        if rank == 0:
            dist.all_reduce(x, async_op=True)
        c10d = torch._C._distributed_c10d
        found = pickle.loads(c10d._dump_nccl_trace(includeStackTraces=False, onlyActive=True))
        if rank:
            dist.all_reduce(x)
        return found, json.loads(c10d._dump_nccl_trace_json())

    (early, all_0), (_, all_1) = sim.spawn(program, nprocs=2)
    (entry,) = early["entries"]
    assert (entry["collective_seq_id"], entry["state"]) == (2, "started")
    assert "frames" not in entry
    assert [len(found["entries"]) for found in (all_0, all_1)] == [2, 2]
    assert not files.exists()

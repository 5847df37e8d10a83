"""`torch.profiler` on ranks: tables and traces hold the simulated times, on all ranks at once."""

import gzip
import json
import subprocess
import sys
from collections import defaultdict

import pytest
import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, record_function

import simgpu as sim
from simgpu.ranks.pytorch.profiler.activities import kernel_of_collective
from simgpu.timeline import Timeline

CPU, CUDA = ProfilerActivity.CPU, ProfilerActivity.CUDA
SCRIPT = """
import os, torch, torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, record_function, schedule
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).cuda())
optimizer = torch.optim.SGD(model.parameters())
x = torch.randn(8, 64)
"""


def program(rank, activities):
    """Multiply matrices, more of them on later ranks, and add them up over the ranks."""
    dist.init_process_group()
    x = torch.ones(512, 512, device="sim")
    sim.synchronize()
    begin = len(sim.trace())
    with profile(activities=activities) as found:
        for _ in range(rank + 1):
            x = x @ x
        dist.all_reduce(x)
    return found.key_averages(), [s for s in sim.trace()[begin:] if f"rank {rank} " in s.device]


@pytest.mark.parametrize("activities", [[CPU, CUDA], None])
def test_the_device_times_are_those_of_the_timeline(activities):
    for rank, (averages, spans) in enumerate(sim.spawn(program, (activities,), nprocs=3)):
        seconds = defaultdict(float)
        for span in spans:
            if span.engine in ("compute", "comm"):
                name = kernel_of_collective(span.name) if span.engine == "comm" else span.name
                seconds[name] += span.duration
        shown = {e.key: e for e in averages}
        assert set(seconds) == {"mm", "ncclDevKernel_AllReduce"}
        if rank < 2:  # it waits for the last one
            del seconds["ncclDevKernel_AllReduce"]
        for name, expected in seconds.items():
            assert shown[name].self_device_time_total == pytest.approx(1e6 * expected, abs=0.01)
        assert shown["aten::mm"].count == shown["mm"].count == rank + 1  # and of no other rank
        assert shown["aten::mm"].device_time_total == shown["mm"].self_device_time_total
        launches = sum(s.duration for s in spans if s.engine == "launch" and s.name == "mm")
        assert shown["aten::mm"].cpu_time_total == pytest.approx(1e6 * launches, abs=0.01)


def test_the_kernel_of_a_collective_waits_for_the_rank_that_joins_last(tmp_path):
    def program(rank):
        dist.init_process_group()
        x, y = torch.ones(2, 512, 512, device="sim")
        sim.synchronize()
        with profile() as found:
            for _ in range(3 if rank == 1 else 1):
                y = y @ y
            dist.all_reduce(x)
            sim.synchronize()
        found.export_chrome_trace(str(tmp_path / f"{rank}.json"))
        return {e.key: e.device_time_total for e in found.key_averages()}

    found = sim.spawn(program, nprocs=3)
    shown = [times["ncclDevKernel_AllReduce"] for times in found]
    assert shown[0] == shown[2]
    (span,) = [s for s in sim.trace() if s.device == "rank 1 sim:1" and s.engine == "comm"]
    assert shown[1] == pytest.approx(1e6 * span.duration, abs=0.01)
    product = found[0]["mm"]
    assert 1.5 * product < shown[0] - shown[1] <= 2 * product  # launches hide the rest
    for rank in range(3):
        events = json.loads((tmp_path / f"{rank}.json").read_text())["traceEvents"]
        (end,) = [e["ts"] + e["dur"] for e in events if e["name"] == "ncclDevKernel_AllReduce"]
        assert end == pytest.approx(1e6 * (span.start + span.duration), abs=0.01)


def test_either_activity_alone():
    keys = {e.key for e in sim.spawn(program, ([CPU],), nprocs=1)[0][0]}
    assert {"aten::mm", "nccl:all_reduce"} <= keys
    assert "mm" not in keys
    keys = {e.key for e in sim.spawn(program, ([CUDA],), nprocs=1)[0][0]}
    assert {"mm", "ncclDevKernel_AllReduce"} <= keys
    assert "aten::mm" not in keys


def test_a_range_has_the_work_inside_it_and_what_was_asked_for():
    def program(rank):
        x = torch.ones(64, 256, device="sim")
        with profile(
            record_shapes=True, profile_memory=True, with_stack=True, with_flops=True
        ) as found:
            with record_function("outer"), record_function("inner"):
                y = x @ x.T
            z = y + 1
            del y, z
        return found

    (found,) = sim.spawn(program, nprocs=1)
    ranges = {e.name: e for e in found.events() if e.is_user_annotation}
    assert ranges["inner"].cpu_parent is ranges["outer"]
    assert [e.name for e in ranges["inner"].cpu_children] == ["aten::mm"]
    (mm,) = ranges["inner"].cpu_children
    assert mm.flops == 2 * 64 * 256 * 64
    assert mm.input_shapes == [[64, 256], [256, 64]]
    assert mm.self_device_memory_usage == 64 * 64 * 4
    assert "test_profiler_of_ranks.py" in mm.stack[0]
    by_shape = found.key_averages(group_by_input_shape=True)
    assert any(e.key == "aten::mm" and e.input_shapes == [[64, 256], [256, 64]] for e in by_shape)
    assert "outer" in found.key_averages().table(sort_by="self_cpu_time_total", row_limit=5)


def test_work_in_flight_belongs_to_the_call_that_has_launched_it():
    def program(rank):
        dist.init_process_group()
        x, y = (torch.ones(2**20, device="sim") for _ in range(2))
        dist.all_reduce(x)
        with profile() as found:
            calls = dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, y, 1 - rank)
            works = dist.batch_isend_irecv([*calls])
            (x @ x).item()
            for work in works:
                work.wait()
            dist.barrier()
        return {e.name: [k.name for k in e.kernels] for e in found.events() if e.kernels}

    for kernels in sim.spawn(program, nprocs=2):
        assert kernels["nccl:send"] == kernels["nccl:recv"] == ["ncclDevKernel_SendRecv"]
        assert kernels["nccl:barrier"] == ["ncclDevKernel_AllReduce"]
        assert kernels["aten::dot"] == ["dot"]
        assert "Memcpy DtoH" in kernels["aten::copy_"]


def test_a_second_profiler_on_a_rank_is_refused_as_by_pytorch():
    def program(rank):
        with profile(), pytest.raises(RuntimeError, match="already enabled"), profile():
            pass
        with profile() as again:
            torch.ones(1, device="sim")
        return len(again.events())

    assert sim.spawn(program, nprocs=2)[0] > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.export_memory_timeline("memory.html"), "export_memory_timeline .*_dump_snap"),
        (
            lambda p: torch.profiler.ExecutionTraceObserver().register_callback("trace.json"),
            "ExecutionTraceObserver .*export_chrome_trace",
        ),
        (lambda p: p.toggle_collection_dynamic(False, [CPU]), "toggle_collection_dynamic"),
    ],
)
def test_what_is_not_there_is_refused_by_name(call, message):
    def program(rank):
        with profile() as found, pytest.raises(NotImplementedError, match=message):
            call(found)

    sim.spawn(program, nprocs=1)


def test_outside_of_ranks_the_profiler_is_pytorch_s():
    before = profile.__init__, torch.autograd.profiler._disable_profiler
    sim.spawn(lambda rank: None, nprocs=1)
    assert (profile.__init__, torch.autograd.profiler._disable_profiler) == before


def test_the_program_of_a_report_shows_the_time_between_its_events(simgpu_run):
    code, out, err = simgpu_run(
        """
import torch
torch.cuda.set_device(0)
from torch.profiler import profile, ProfilerActivity
a = torch.randn(2048, 2048, device="cuda"); torch.cuda.synchronize()
s, e = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as p:
    s.record(); b = a @ a; e.record(); torch.cuda.synchronize()
(mm,) = [x for x in p.key_averages() if x.key == "aten::mm"]
print(s.elapsed_time(e) * 1e3, mm.cpu_time_total + mm.device_time_total)
""",
        "--nproc-per-node", "1", "--shapes-only",
    )  # fmt: skip
    assert code == 0, err
    events, shown = map(float, out.splitlines()[0].split())
    assert shown == pytest.approx(events, rel=1e-3)
    assert err.count("torch.profiler shows simulated times") == 1


def test_a_range_of_nvtx_may_end_in_a_later_step(simgpu_run):
    code, out, err = simgpu_run(
        SCRIPT + """
nvtx = torch.cuda.nvtx
with profile(schedule=schedule(wait=0, warmup=1, active=3)) as p:
    p.step()
    nvtx.range_push("pushed")
    handle = nvtx.range_start("started")
    p.step()
    nvtx.range_pop()
    nvtx.range_pop()  # one too many
    model(x.cuda())
    nvtx.range_end(handle)
    p.step()
found = {e.trace_name: e.time_range for e in p.events() if e.is_user_annotation}
assert found["pushed"].end <= found["ProfilerStep#2"].start < found["started"].end
assert found["ProfilerStep#2"].end >= found["started"].end
""",
        "--nproc-per-node", "2",
    )  # fmt: skip
    assert code == 0, out + err


def test_all_ranks_profile_with_a_schedule_and_write_traces(simgpu_run, tmp_path):
    code, _out, err = simgpu_run(
        SCRIPT + f"""
ready = torch.profiler.tensorboard_trace_handler({str(tmp_path / "traces")!r})
with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=ready,
             profile_memory=True) as p:
    for _ in range(8):
        with record_function("forward"), torch.cuda.nvtx.range("inside {{}}", 7):
            loss = model(x.cuda()).sum()
        loss.backward()
        optimizer.step()
        p.step()
with profile() as p:
    p.add_metadata("key", "value")
    model(x.cuda()).sum()
p.export_chrome_trace({str(tmp_path)!r} + f"/{{rank}}.json.gz")
assert {{"ProfilerStep*", "forward", "inside 7"}} & {{e.key for e in p.key_averages()}} == set()
""",
        "--nproc-per-node", "4",
    )  # fmt: skip
    assert code == 0, err
    files = sorted((tmp_path / "traces").glob("*.pt.trace.json"))
    assert len(files) == 4 * 2  # ranks, and repetitions
    trace = json.loads(files[-1].read_text())
    assert trace["distributedInfo"]["rank"] == 3
    assert trace["distributedInfo"]["world_size"] == 4
    events = defaultdict(list)
    for event in trace["traceEvents"]:
        events[event.get("cat")].append(event)
    names = {e["name"] for e in events["user_annotation"]}
    assert {"ProfilerStep#6", "ProfilerStep#7", "forward", "inside 7"} <= names
    (first, *_) = [e for e in events["kernel"] if e["name"] == "ncclDevKernel_AllReduce"]
    assert first["args"]["Group size"] == 4
    assert first["args"]["Collective name"] == "allreduce"
    assert first["args"]["Process Group Name"] == "0"
    assert first["args"]["Process Group Description"] == "default_pg"
    assert first["args"]["dtype"] == "Byte"
    streams = {e["args"]["stream"] for e in events["kernel"] if "nccl" not in e["name"]}
    assert streams == {7}  # Kineto's number of the default stream
    assert first["args"]["stream"] == first["tid"] > 7
    assert first["args"]["In msg nelems"] == 4 * (64 * 64 + 64)
    assert first["args"]["Seq"] >= 6
    calls = {e["args"]["correlation"]: e for e in events["cuda_runtime"]}
    for work in events["kernel"] + events["gpu_memcpy"]:
        assert calls[work["args"]["correlation"]]["ts"] <= work["ts"]
    assert sum(e["args"]["Bytes"] > 0 for e in events["cpu_instant_event"]) > 0
    with gzip.open(tmp_path / "2.json.gz") as file:
        assert json.load(file)["key"] == "value"
    last = [file for i, file in enumerate(files) if i % 2]  # of each rank
    lanes = {span.device for span in Timeline.from_chrome(last).spans}
    assert {"rank 0 host", "rank 3 cuda:3"} <= lanes


def test_a_share_of_what_is_gathered_or_scattered_is_given_or_filled(tmp_path):
    def program(rank):
        dist.init_process_group()
        one, four = torch.ones(1000, device="sim"), torch.ones(4000, device="sim")
        with profile() as found:
            dist.all_gather_into_tensor(four, one)
            dist.reduce_scatter_tensor(one, four)
        found.export_chrome_trace(str(tmp_path / f"{rank}.json"))

    sim.spawn(program, nprocs=4)
    events = json.loads((tmp_path / "1.json").read_text())["traceEvents"]
    shown = [
        [e["args"][f] for f in ("Collective name", "In msg nelems", "Out msg nelems", "Group size")]
        for e in events
        if e.get("cat") == "kernel"
    ]
    assert shown == [
        ["_allgather_base", 4000, 16000, 4],
        ["_reduce_scatter_base", 16000, 4000, 4],
    ]


@pytest.mark.process
def test_holistic_trace_analysis_reads_the_traces_of_all_ranks(simgpu_run, tmp_path):
    pytest.importorskip("hta", reason="HolisticTraceAnalysis is not installed")
    code, _out, err = simgpu_run(
        SCRIPT
        + f"""
model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(4)]).cuda()
model = torch.nn.parallel.DistributedDataParallel(model)
x = torch.randn(512, 2048)
ready = torch.profiler.tensorboard_trace_handler({str(tmp_path / "traces")!r})
with profile(schedule=schedule(wait=1, warmup=1, active=3), on_trace_ready=ready) as p:
    for _ in range(5):
        model(x.cuda()).sum().backward()
        p.step()
""",
        "--nproc-per-node", "4", "--shapes-only", "--slow", "2:1.5x",
    )  # fmt: skip
    assert code == 0, err
    text = f"""
from hta.trace_analysis import TraceAnalysis
found = TraceAnalysis(trace_dir={str(tmp_path / "traces")!r})
assert len(found.get_profiler_steps()) == 2  # it leaves out the last one
computing = found.get_temporal_breakdown(visualize=False).compute_time_pctg
assert computing.idxmax() == 2, computing  # the slow one
overlap = found.get_comm_comp_overlap(visualize=False).comp_comm_overlap_pctg
assert (overlap > 10).all() and overlap.idxmax() == 2, overlap
kinds = found.get_gpu_kernel_breakdown(visualize=False)[0].set_index("kernel_type")["sum"]
assert {{"COMPUTATION", "COMMUNICATION", "MEMORY"}} <= {{*kinds.index}}, kinds
events = found.t.get_trace(0)
kernels = events[events.stream >= 0]
assert (kernels.index_correlation > 0).all()  # each has the call that has launched it
assert (kernels.iteration >= 2).all()  # and the step of that
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

"""Traces of PyTorch's profiler, of several versions and vendors: lanes, ranks, absurd values."""

import json
import re
import warnings
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
import torch
from support.samples.profiler_traces import (
    PID,
    busy_gpu,
    device_event,
    host_event,
    plain_count,
    write,
)

from d2lmini import recording
from simgpu.clock.span import Span
from simgpu.timeline import Timeline

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def only(timeline, device):
    """Return the spans of one device."""
    return [span for span in timeline.spans if span.device == device]


def read(tmp_path, events, **fields):
    return Timeline.from_chrome(write(tmp_path / "trace.json", events, **fields))


# Lanes


@pytest.mark.parametrize("epoch", [0, 1_661_203_462_598_738])
def test_spans_and_busy_times_are_those_of_a_plain_count(tmp_path, epoch):
    path = write(tmp_path / "trace.json", busy_gpu(1, epoch=epoch))
    plain, timeline = plain_count(path), Timeline.from_chrome(path)
    busy, length = timeline.busy(), timeline.end - timeline.start
    threads = {0: PID, 1: PID + 1}
    counted = {}
    for lane, spans in timeline.lanes().items():
        (engine,), (stream,) = {s.engine for s in spans}, {s.stream for s in spans}
        engine = "nccl" if engine == "comm" else engine
        where = (3, engine, stream) if lane[0] == "cuda:3" else ("host", engine, threads[stream])
        counted[where] = len(spans), pytest.approx(busy[lane] * length * 1e6, abs=1e-3)
    assert counted == plain
    assert len(plain) == 11


def test_every_stream_has_lanes_of_its_own_on_which_nothing_overlaps(tmp_path):
    timeline = read(tmp_path, busy_gpu(2))
    lanes = timeline.lanes()
    assert list(lanes) == [
        ("host", "cpu"), ("host", "cpu thread 1"),
        ("host", "launch"), ("host", "launch thread 1"), ("host", "sync"),
        ("cuda:3", "compute"), ("cuda:3", "stream 20"), ("cuda:3", "nccl"),
        ("cuda:3", "h2d"), ("cuda:3", "h2d stream 7"), ("cuda:3", "d2h"),
    ]  # fmt: skip
    for spans in lanes.values():
        for one, following in pairwise(spans):
            assert following.start >= one.end - 1e-12
    assert {s.stream for s in lanes["cuda:3", "stream 20"]} == {20}
    assert {s.stream for s in lanes["cuda:3", "h2d"]} == {22}  # the most work, the bare name


def test_kernels_of_one_stream_that_overlap_share_its_lane(tmp_path):
    """As in a CUDA graph, or where a kernel is launched to start early."""
    events = [device_event("kernel", "a", 0, 10), device_event("kernel", "b", 6, 10)]
    timeline = read(tmp_path, events)
    assert list(timeline.lanes()) == [("cuda:0", "compute")]
    assert timeline.busy()["cuda:0", "compute"] == 1


def test_an_operation_that_outlasts_the_one_before_is_kept(tmp_path):
    events = [host_event("cpu_op", name, ts, dur) for name, ts, dur in (
        ("outer", 0, 100), ("inner", 10, 90.5), ("longer", 50, 100), ("in longer", 120, 30),
    )]  # fmt: skip
    assert [s.name for s in read(tmp_path, events).spans] == ["outer", "longer"]


def test_the_main_thread_has_the_bare_names(tmp_path):
    events = [
        host_event("cpu_op", "worker", 0, 500, tid=PID + 9),
        host_event("cuda_runtime", "cudaLaunchKernel", 1, 2, tid=PID + 9),
        host_event("cpu_op", "main", 10, 5),
        host_event("cpu_op", "other worker", 5, 5, tid=1),
    ]
    lanes = read(tmp_path, events).lanes()
    assert {lane[1]: [s.name for s in spans] for lane, spans in lanes.items()} == {
        "cpu": ["main"],
        "cpu thread 1": ["worker"],
        "cpu thread 2": ["other worker"],
        "launch thread 1": ["cudaLaunchKernel"],
    }


@pytest.mark.parametrize(
    ("name", "args", "engine"),
    [
        ("Memcpy HtoD (Pageable -> Device)", {}, "h2d"),
        ("Memcpy DtoH (Device -> Pinned)", {}, "d2h"),
        ("Memcpy DtoD (Device -> Device)", {}, "compute"),
        ("Memcpy DtoD (Device -> Device)", {"fromDevice": 0, "toDevice": 0}, "compute"),
        ("Memcpy DtoD (Device -> Device)", {"fromDevice": 0, "toDevice": 1}, "p2p"),
        ("Memcpy PtoP (Device -> Device)", {"fromDevice": 0, "toDevice": 1}, "p2p"),
        ("Memcpy M2D (MEMORY -> DEVICE)", {}, "h2d"),
        ("Memcpy D2M (DEVICE -> MEMORY)", {}, "d2h"),
        ("CopyHostToDevice", {}, "h2d"),
        ("Memcpy HtoH (Host -> Host)", {}, "copy"),
        ("Memcpy ? (? -> ?)", {}, "copy"),
    ],
)
def test_engines_of_copies(tmp_path, name, args, engine):
    event = device_event("gpu_memcpy", name, 0, 5, bytes=77, **args)
    (span,) = read(tmp_path, [event]).spans
    assert (span.engine, span.bytes) == (engine, 77)


def test_a_copy_between_devices_is_on_the_device_that_issued_it(tmp_path):
    """Such events have no argument "device"."""
    event = device_event("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 0, 5, device=0, bytes=9)
    event["args"] = {"fromDevice": 0, "inDevice": 1, "toDevice": 1, "stream": 7, "bytes": 9}
    assert list(read(tmp_path, [event]).lanes()) == [("cuda:1", "p2p")]


# Collectives


@pytest.mark.parametrize(
    ("name", "lane"),
    [
        (NCCL, "nccl"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "nccl"),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>) [clone .kd]", "nccl"),
        ("mscclKernel_Sum_hip_bfloat16_Simple_false(ncclDevComm*)", "msccl"),
        ("oneccl_allreduce<Rt64_PCIE<bf16>>", "oneccl"),
        ("void vllm::cross_device_reduce_1stage<float, 2>(RankData*)", "comm"),
        ("void multimem_all_reduce_kernel<float>(float*)", "comm"),
        ("triton_poi_fused_add_all_reduce_3", "compute"),
        ("void at::native::reduce_kernel<512, AllReduceOps>(int)", "compute"),
        ("void splitKreduce_kernel<32>(float)", "compute"),
    ],
)
def test_kernels_that_communicate(tmp_path, name, lane):
    (found,) = read(tmp_path, [device_event("kernel", name, 0, 5)]).lanes()
    assert found == ("cuda:0", lane)


def test_what_a_collective_says_of_itself(tmp_path):
    told = {
        "Collective name": "_allgather_base", "In msg nelems": 1000, "Out msg nelems": 8000,
        "Group size": 8, "dtype": "BFloat16", "Process Group Name": "3",
        "Process Group Description": "mesh_tp",
    }  # fmt: skip
    unnamed = {k: v for k, v in told.items() if k != "Process Group Description"}
    unnamed["In msg nelems"] = 9000
    events = [
        device_event("kernel", NCCL, 0, 5, stream=21, **told),
        device_event("kernel", NCCL, 10, 5, stream=21, **unnamed),
        device_event("kernel", NCCL, 20, 5, stream=21),
        device_event("kernel", "fused_step", 30, 5, stream=25, **told),
    ]
    timeline = read(tmp_path, events)
    facts = [(s.engine, s.bytes, s.collective, s.group, s.ranks) for s in timeline.spans]
    assert facts == [
        ("comm", 16_000, "_allgather_base", "mesh_tp", 8),
        ("comm", 18_000, "_allgather_base", "3", 8),
        ("comm", 0, "", "", 0),
        ("comm", 16_000, "_allgather_base", "mesh_tp", 8),
    ]
    assert list(timeline.lanes()) == [("cuda:0", "nccl"), ("cuda:0", "comm")]
    assert "_allgather_base in mesh_tp, 8 ranks\n16 kB: 3.2 GB/s" in timeline.to_svg()


def test_collectives_on_the_host(tmp_path):
    events = [
        host_event("cpu_op", "c10d::allreduce_", 0, 20),
        host_event("user_annotation", "gloo:all_reduce", 10, 50, tid=PID + 5),
        host_event("cpu_op", "aten::copy_", 20, 5, tid=PID + 5),
        host_event("user_annotation", "nccl:all_reduce", 70, 3),  # only encloses a launch
        host_event("user_annotation", "forward", 0, 100),
        host_event("collective_comm", "xccl::allreduce", 80, 9),
    ]
    assert {lane: s[0].name for lane, s in read(tmp_path, events).lanes().items()} == {
        ("host", "cpu"): "c10d::allreduce_",
        ("host", "cpu thread 1"): "aten::copy_",
        ("host", "gloo"): "gloo:all_reduce",
        ("host", "xccl"): "xccl::allreduce",
    }


# Versions and vendors


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "trace"])
def test_packed_or_not_whatever_the_name(tmp_path, name, packed):
    path = write(tmp_path / name, busy_gpu(3), packed=packed)
    assert len(Timeline.from_chrome(path).lanes()) == 11


def test_a_trace_of_pytorch_1_8(tmp_path):
    def event(category, name, pid, tid, ts, **args):
        return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts,
                "dur": 10, "args": {"external id": 2, **args}}  # fmt: skip

    now = 1_615_207_264_505_000
    events = [
        event("Operator", "ProfilerStep#1", PID, "123", now),
        event("Operator", "aten::mm", PID, "123", now + 1),
        event("Runtime", "cudaLaunchKernel", PID, "123", now + 4),
        event("Kernel", "volta_sgemm_64x64_nt", 0, "stream 7", now + 20, device=0, stream=7),
        event("Memcpy", "Memcpy HtoD (Pageable -> Device)", 0, "stream 7", now + 30, bytes=4),
        event("Memset", "Memset (Device)", 0, "stream 7", now + 40, device=0),
    ]
    assert [(s.device, s.engine, s.stream, round(s.start * 1e6)) for s in
            read(tmp_path, events).spans] == [
        ("host", "cpu", 0, 0), ("host", "launch", 0, 3), ("cuda:0", "compute", 7, 19),
        ("cuda:0", "h2d", 7, 29), ("cuda:0", "compute", 7, 39),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("category", "device"),
    [
        ("cuda_runtime", "cuda:1"),
        ("hip_runtime", "cuda:1"),
        ("xpu_runtime", "xpu:1"),
        ("mtia_runtime", "mtia:1"),
        ("privateuse1_driver", "privateuseone:1"),
        ("musa_runtime", "musa:1"),
        ("mtia_ccp_events", "mtia:1"),
        ("<b>_runtime", "gpu:1"),
        ("sim_runtime", "gpu:1"),
    ],
)
def test_devices_are_called_as_pytorch_calls_them(tmp_path, category, device):
    kernel = device_event("kernel", "k", 10, 5, device=1, stream=2)
    del kernel["args"]["stream"]  # as of Intel's: the queue is the track
    first = {**host_event(category, "launch it", 0, 5), "args": {"device": 1, "stream": 2}}
    events = [first, host_event("cpu_op", "aten::mm", 0, 5), kernel]
    models = [{"id": 1, "name": "Fast 9000"}, {"id": 2, "name": "unused"}, {"id": None}, 7]
    timeline = read(tmp_path, events, deviceProperties=models)
    assert {(s.stream, s.engine) for s in only(timeline, device)} == {(2, "compute")}
    on_host = {s.engine for s in only(timeline, "host")}
    assert on_host == ({"cpu"} if category.endswith("events") else {"cpu", "launch"})
    assert not timeline.simulated
    assert timeline.models == {device: "Fast 9000"}
    assert repr(timeline).endswith(f"{device}: Fast 9000")
    assert "<title>Fast 9000</title>" in timeline.last(1).to_svg()


@pytest.mark.parametrize(
    ("stream", "number"), [("3", 3), ("stream 7", 7), ("0x7f10", 0x7F10), (-1, -1), (2**63, 2**63)]
)
def test_numbers_of_streams(tmp_path, stream, number):
    (span,) = read(tmp_path, [device_event("kernel", "k", 0, 5, stream=stream)]).spans
    assert span.stream == number


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("hipDeviceSynchronize", "sync"),
        ("zeEventHostSynchronize", "sync"),
        ("urQueueFinish", "sync"),
        ("cudaStreamWaitEvent", "launch"),
        ("hipLaunchKernel", "launch"),
    ],
)
def test_calls_that_block(tmp_path, name, engine):
    (span,) = read(tmp_path, [host_event("cuda_runtime", name, 0, 5)]).spans
    assert span.engine == engine


# Ranks


def rank_file(tmp_path, rank, ts, **fields):
    events = [device_event("kernel", NCCL, ts, 100, device=rank, stream=21),
              host_event("cpu_op", "aten::mm", ts - 40, 30)]  # fmt: skip
    fields = {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 4}, **fields}
    return write(tmp_path / f"rank{rank}-{ts}.json", events, **fields)


def test_ranks_share_one_clock(tmp_path):
    now = 1_760_000_000_000_000_000
    paths = [
        rank_file(tmp_path, 2, 1000.5, baseTimeNanoseconds=now,
                  deviceProperties=[{"id": 2, "name": "NVIDIA H100"}]),
        rank_file(tmp_path, 0, 400, baseTimeNanoseconds=now + 500_250),
        rank_file(tmp_path, 10, now // 1000 + 1010),  # before PyTorch 2.4: since 1970
    ]  # fmt: skip
    timeline = Timeline.from_chrome(paths)
    assert {lane: round(spans[0].start * 1e6, 2) for lane, spans in timeline.lanes().items()} == {
        ("rank 0 host", "cpu"): 0,
        ("rank 0 cuda:0", "nccl"): 40,
        ("rank 2 host", "cpu"): 100.25,
        ("rank 2 cuda:2", "nccl"): 140.25,
        ("rank 10 host", "cpu"): 109.75,
        ("rank 10 cuda:10", "nccl"): 149.75,
    }
    assert [lane[0] for lane in timeline.lanes()][-1] == "rank 10 cuda:10"
    assert timeline.models == {"rank 2 cuda:2": "NVIDIA H100"}
    assert "rank 10 cuda:10 nccl" in timeline.to_svg()
    alone = Timeline.from_chrome(paths[:1])
    assert list(alone.lanes()) == [("host", "cpu"), ("cuda:2", "nccl")]


@pytest.mark.slow
def test_every_span_of_every_rank_is_kept(tmp_path):
    paths = [
        write(tmp_path / f"{rank}.json", busy_gpu(rank, device=rank), packed=True,
              baseTimeNanoseconds=10**18 + rank * 1000, distributedInfo={"rank": rank})
        for rank in range(3)
    ]  # fmt: skip
    merged = Timeline.from_chrome(paths)
    assert len(merged.spans) == sum(len(Timeline.from_chrome(path).spans) for path in paths)
    for rank, path in enumerate(paths):
        alone = Timeline.from_chrome(path)
        length = (merged.end - merged.start) / (alone.end - alone.start)
        for (device, lane), share in alone.busy().items():
            merged_share = merged.busy()[f"rank {rank} {device}", lane]
            assert merged_share * length == pytest.approx(share)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"distributedInfo": {"rank": 0}, "baseTimeNanoseconds": 1}, "both of rank 0; give one"),
        ({"distributedInfo": {"rank": 1}}, "no valid 'baseTimeNanoseconds'; record it with"),
        ({"distributedInfo": {"rank": 1}, "baseTimeNanoseconds": "1"}, "no valid 'baseTime"),
        ({"distributedInfo": {"rank": "1"}, "baseTimeNanoseconds": 1}, "does not state its rank"),
        ({"distributedInfo": None, "baseTimeNanoseconds": 1}, "does not state its rank"),
    ],
)
def test_ranks_that_cannot_be_merged(tmp_path, fields, message):
    first = rank_file(tmp_path, 0, 400, baseTimeNanoseconds=1)
    second = rank_file(tmp_path, 1, 500, **fields)
    with pytest.raises(ValueError, match=message) as error:
        Timeline.from_chrome([first, second])
    assert str(second) in str(error.value)


def test_other_files_have_no_rank(tmp_path):
    Timeline([Span("sim:0", "compute", 0, "mm", 0, 1)]).to_chrome(tmp_path / "own.json")
    first = rank_file(tmp_path, 0, 400, baseTimeNanoseconds=1)
    with pytest.raises(ValueError, match=r"own\.json holds no operations of PyTorch's profiler"):
        Timeline.from_chrome([first, tmp_path / "own.json"])
    with pytest.raises(ValueError, match="no files to read"):
        Timeline.from_chrome([])


# Absurd values


GOOD = device_event("kernel", "k", 0, 5)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"ts": None}, "ts"),
        ({"ts": "12"}, "ts"),
        ({"ts": float("nan")}, "ts"),
        ({"ts": 10**400}, "ts"),
        ({"dur": float("inf")}, "dur"),
        ({"dur": True}, "dur"),
        ({"name": 5}, "name"),
        ({"name": ["k"]}, "name"),
        ({"args": [1]}, "args"),
        ({"args": None, "pid": None}, "device"),
        ({"args": {"device": "GPU"}}, "device"),
        ({"args": {"device": 0, "stream": 1e300}}, "stream"),
        ({"args": {"device": 0, "stream": {}}}, "stream"),
        ({"args": {"device": 0, "stream": 2**64}}, "stream"),
        ({"cat": "cpu_op", "tid": [1]}, "tid"),
        ({"cat": "cpu_op", "pid": None}, "pid"),
        ({"cat": "simgpu", "args": {}}, "device"),
        ({"cat": "simgpu", "args": {"device": "cuda:0", "engine": "p", "stream": 0}, "dur": -1},
         "dur"),
    ],
)  # fmt: skip
def test_absurd_fields_are_named(tmp_path, change, field):
    write(tmp_path / "bad.json", [GOOD, {**GOOD, **change}])
    with pytest.raises(ValueError, match=rf"bad\.json: the field '{field}' of an event is"):
        Timeline.from_chrome(tmp_path / "bad.json")


def test_fields_of_no_use_are_no_harm(tmp_path):
    odd = {
        "bytes": "many", "Group size": -1, "dtype": [], "In msg nelems": float("nan"),
        "Collective name": {}, "Process Group Name": None, "occupancy": float("inf"),
    }  # fmt: skip
    events = [
        device_event("kernel", NCCL, 0, 5, **odd),
        {**GOOD, "args": None, "tid": 7},
        {"ph": "X", "cat": ["kernel"]},
        {"ph": "X"},
        {"ph": "X", "cat": "user_annotation", "name": 5},
        "no event",
        None,
    ]
    timeline = read(tmp_path, events, deviceProperties=5, distributedInfo=[])
    assert [(s.bytes, s.ranks, s.collective) for s in timeline.spans] == [(0, 0, "")] * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ('{"traceEvents": [{"ts": ' + "9" * 5000 + "}]}", "not a JSON trace|holds no operations"),
        ('{"traceEvents": [{"ph": "X", "Process Group Description": , }]}', "not a JSON trace"),
        ('{"traceEvents": {"ph": "X"}}', "no list 'traceEvents'"),
        ("{}", "no list 'traceEvents'"),
        ('{"traceEvents": []}', "holds no operations"),
        ('{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "a"}]}', "no operations"),
        ('{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "a", "ts": 0}]}', "field"),
        ("5", "no list 'traceEvents'"),
        ("", "not a JSON trace"),
    ],
)
def test_files_that_are_no_traces(tmp_path, text, message):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        Timeline.from_chrome(tmp_path / "bad.json")
    assert "bad.json" in str(error.value)


@pytest.mark.parametrize("data", [b"\x1f\x8b\x08", b"\x1f\x8bnonsense", b"\xff\xfe\x00{", b"\x80"])
def test_broken_files(tmp_path, data):
    (tmp_path / "bad.json.gz").write_bytes(data)
    with pytest.raises(ValueError, match=r"bad\.json\.gz is not a JSON trace"):
        Timeline.from_chrome(tmp_path / "bad.json.gz")


def test_durations_lost_in_rounding_lose_no_span(tmp_path):
    events = [device_event("kernel", "k", ts, 1e-300) for ts in (-9e17, 0, 9e17)]
    with pytest.warns(UserWarning, match="left out 2 events"):
        timeline = read(tmp_path, events)
    assert len(timeline.spans) == 1
    assert len(read(tmp_path, events[:2]).spans) == 2


def test_a_file_too_large_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "t.json.gz", busy_gpu(1), packed=True)
    monkeypatch.setattr("simgpu.timeline.files.MAX_BYTES", 1000)
    with pytest.raises(ValueError, match=r"t\.json\.gz holds more than .* record fewer steps"):
        Timeline.from_chrome(path)


def test_events_without_start_or_end_are_left_out_aloud(tmp_path):
    now = 1_661_203_462_598_738
    events = [
        host_event("cpu_op", "unfinished", now, -1),
        device_event("kernel", "started at 0", 0, 0),
        device_event("kernel", "whole", now + 5, 5),
    ]
    with pytest.warns(UserWarning, match=r"trace\.json: left out 2 events .* 'unfinished'"):
        timeline = read(tmp_path, events)
    assert [s.name for s in timeline.spans] == ["whole"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read(tmp_path, [device_event("kernel", "at 0", 0, 5)]).spans) == 1


# Figures


HOSTILE = '</title></svg><script>alert("1")</script><img src=x onerror=alert(1)>&\x00\x1b\ud800'


def test_names_of_strangers_are_text_in_figures(tmp_path):
    told = {"Collective name": HOSTILE, "Process Group Description": HOSTILE}
    events = [
        device_event("kernel", HOSTILE, 0, 5),
        device_event("kernel", HOSTILE + NCCL, 0, 5, stream=9, **told),
        host_event("cpu_op", HOSTILE, 0, 5),
        device_event("kernel", "", 8, 5),
        device_event("kernel", "  ", 18, 5),
    ]
    timeline = read(tmp_path, events, deviceProperties=[{"id": 0, "name": HOSTILE}])
    own = Span(HOSTILE, HOSTILE, 0, HOSTILE, 0, 1, lane=HOSTILE, collective=HOSTILE, group=HOSTILE)
    for drawn in (timeline, Timeline([own], models={HOSTILE: HOSTILE})):
        for text in (drawn.to_svg(tmp_path / "t.svg"), drawn._repr_html_()):
            tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(text).iter()}
            assert not tags & {"script", "img"}
            assert "&lt;script&gt;" in text
        repr(drawn).replace("\ud800", "")
    repr(timeline).encode()


def test_a_name_without_end_does_not_fill_the_figure(tmp_path):
    events = [device_event("kernel", "x" * 100_000, 0, 5)]
    assert len(read(tmp_path, events)._repr_html_()) < 10_000


@pytest.mark.slow
def test_a_figure_of_very_many_lanes_stays_small_and_says_so(tmp_path):
    events = [device_event("kernel", "k", i, 500 - i % 7, stream=i) for i in range(2000)]
    events += [host_event("cpu_op", "op", i, 500, tid=PID + i) for i in range(1500)]
    timeline = read(tmp_path, events)
    assert len(timeline.lanes()) == 3500
    for text in (timeline.to_svg(), timeline._repr_html_()):
        root = ET.fromstring(text)
        heights = [float(e.get("height")) for e in root.iter() if e.tag.endswith("svg")]
        assert max(heights) < 1700
        assert len(text) < 150_000
        shown = "".join(root.itertext())
        assert "Not drawn, for lack of room: 3452 lanes (host cpu thread 4" in shown
        assert "cuda:0 compute" in shown
        assert "host cpu" in shown


def test_a_figure_with_room_leaves_nothing_out(tmp_path):
    html = read(tmp_path, busy_gpu(4))._repr_html_()
    assert "Not drawn" not in html
    titles = re.findall(r"<title>(.*?)</title>", html, re.DOTALL)
    assert {place for t in titles for place in re.findall(r"^(?:stream|thread) .*$", t, re.M)} == {
        "stream 7", "stream 20", "stream 21", "stream 22",
    }  # fmt: skip
    for label in ("cuda:3 stream 20", "cuda:3 nccl", "host launch thread 1", "cuda:3 h2d stream 7"):
        assert f">{label}<" in html


def test_many_lanes_do_not_blur_each_other(tmp_path):
    """40 streams of 12 kernels are more boxes than a figure of few lanes may have."""
    kernels = ("sgemm", "elementwise_kernel")
    events = [
        device_event("kernel", kernels[i % 2], 40 * i, 20, stream=stream)
        for stream in range(40) for i in range(12)
    ]  # fmt: skip
    assert read(tmp_path, events).to_svg().count("lasts 20 µs") == 480


def test_long_labels_fit_beside_the_plot(tmp_path):
    def width(timeline):
        labels = ET.fromstring(timeline._repr_html_()).find("div[@class='d2l-tl-body']")[0]
        return float(labels.get("width"))

    short = Timeline([Span("cuda:0", "compute", 7, "k", 0, 1)])
    long = Timeline([Span("rank 12 privateuseone:0", "compute", 7, "k", 0, 1, lane="stream 20")])
    assert width(short) == 120
    assert width(long) > 200


def test_a_profile_written_and_read_again_is_the_same(tmp_path):
    told = {"Collective name": "allreduce", "Group size": 8, "Process Group Name": "0"}
    events = [*busy_gpu(5), device_event("kernel", NCCL, 9000, 5, device=3, stream=21, **told)]
    timeline = read(tmp_path, events, deviceProperties=[{"id": 3, "name": "NVIDIA A100"}])
    timeline.to_chrome(tmp_path / "again.json")
    again = Timeline.from_chrome(tmp_path / "again.json")
    assert again._repr_html_() == timeline._repr_html_()
    assert repr(again) == repr(timeline)
    assert again.spans[-1] == timeline.spans[-1]
    assert json.loads((tmp_path / "again.json").read_text())["models"] == {"cuda:3": "NVIDIA A100"}


# Recording


def test_a_profiler_that_sees_no_gpu_is_an_error(monkeypatch):
    """As under WSL, or with a driver that refuses CUPTI: only the host is in the profile."""
    monkeypatch.setattr(recording, "synchronize", lambda *devices: None)
    message = r"no GPU activity on cuda:0: run something.*CUPTI"
    with pytest.raises(RuntimeError, match=message), recording.record("cuda:0"):
        torch.ones(3) + 1
    with recording.record("cpu") as recorded:
        torch.ones(3) + 1
    assert recorded.timeline.spans


def test_a_profiler_that_sees_a_gpu_is_none(monkeypatch):
    seen = Timeline([Span("cuda:1", "compute", 7, "k", 0, 1)])
    monkeypatch.setattr(recording, "synchronize", lambda *devices: None)
    monkeypatch.setattr(recording.Timeline, "from_profiler", lambda prof: seen)
    with recording.record("cuda:0", torch.device("cuda")) as recorded:
        pass
    assert recorded.timeline is seen

"""Calibration: the arithmetic on known timings, the measuring on simulated GPUs, the file."""

import copy
import importlib.util
import json
import time
from pathlib import Path

import pytest
import torch

from d2lmini import sim
from d2lmini.sim import measuring
from d2lmini.sim.calibration import Calibration, calibrate, fit, from_calibration
from d2lmini.sim.hardware import DTYPES, find_gpu, find_link
from d2lmini.sim.measuring import Runtime

PROVENANCE = {"hardware": "Test GPU", "date": "2026-11-20", "repeats": 3}


def timings(gpu=None, link=None, peer=False, noise=(1.0, 1.0, 1.0)):
    """Make up what a stopwatch would read on hardware that does exactly what a spec says."""
    gpu, link = gpu or find_gpu("v100"), link or find_link("pcie3")
    start = gpu.launch_overhead

    def row(what, amount, seconds):
        return {"what": what, "amount": amount, "seconds": [seconds * n for n in noise]}

    rows = [
        row("launch", 400, 400 * gpu.launch_overhead),
        row("kernel", 400, 400 * gpu.kernel_overhead),
        row("memory", 2**30, gpu.seconds(0, 2**30)),
        row("small copy", 4096, start + link.latency),
    ]
    for size in (2048, 4096):
        work = 2 * size**3
        rows += [row(f"product {d} {size}", work, gpu.seconds(work, 0, d)) for d in DTYPES]
    for what, pinned, to_host in (
        ("pinned to device", True, False),
        ("pinned to host", True, True),
        ("pageable to device", False, False),
        ("pageable to host", False, True),
    ):
        seconds = link.host_seconds(2**26, pinned, to_host) + (0 if pinned else start)
        rows.append(row(what, 2**26, seconds))
    if peer:
        rows.append(row("peer", 2**26, link.peer_seconds(2**26)))
    return rows


def check_recovered(calibration, gpu, link, rel=1e-6):
    """Assert that the calibration predicts what the hardware does."""
    found = calibration.gpu
    assert found.launch_overhead == pytest.approx(gpu.launch_overhead, rel=rel)
    assert found.kernel_overhead == pytest.approx(gpu.kernel_overhead, rel=rel)
    for dtype in DTYPES:
        achieved = gpu.flops[dtype] * gpu.compute_efficiency
        assert found.flops[dtype] == pytest.approx(achieved, rel=rel)
    assert found.memory_bandwidth == pytest.approx(
        gpu.memory_bandwidth * gpu.memory_efficiency, rel=rel
    )
    assert (found.compute_efficiency, found.memory_efficiency) == (1, 1)
    for rate in ("bandwidth", "pageable_bandwidth", "pageable_to_host"):
        assert getattr(calibration.link, rate) == pytest.approx(getattr(link, rate), rel=rel), rate
    assert calibration.link.latency == pytest.approx(link.latency, rel=0.1)


@pytest.mark.parametrize("gpu", ["k80", "v100", "rtx4090", "h200"])
def test_the_fit_recovers_the_hardware(gpu):
    gpu, link = find_gpu(gpu), find_link("pcie4")
    calibration = fit(timings(gpu, link), "test", gpu.memory, PROVENANCE)
    check_recovered(calibration, gpu, link)
    work = 2 * 3000**3
    assert calibration.gpu.seconds(work, 0) == pytest.approx(gpu.seconds(work, 0))


def test_one_disturbed_repetition_does_not_matter():
    calm = fit(timings(), "test", 1, PROVENANCE)
    disturbed = fit(timings(noise=(1.0, 5.0, 1.0)), "test", 1, PROVENANCE)
    assert disturbed.gpu == calm.gpu
    assert disturbed.link == calm.link
    assert disturbed.spread()["memory"] == pytest.approx(4.0)
    assert calm.spread()["memory"] == 0


def test_peers_are_direct_only_if_measured():
    alone = fit(timings(), "test", 1, PROVENANCE).link
    assert not alone.peer
    assert "unused" in alone.sources["peer_bandwidth"]
    link = find_link("nvlink2")
    pair = fit(timings(link=link, peer=True), "test", 1, PROVENANCE).link
    assert pair.peer
    assert pair.peer_bandwidth == pytest.approx(link.peer_bandwidth)


def test_an_unsupported_dtype_is_named_in_the_sources():
    rows = [row for row in timings() if "bfloat16" not in row["what"]]
    gpu = fit(rows, "test", 1, PROVENANCE).gpu
    assert gpu.flops["bfloat16"] == gpu.flops["float32"]
    assert "not supported" in gpu.sources["flops.bfloat16"]
    assert "Test GPU" in gpu.sources["flops.float16"]


@pytest.mark.parametrize("what", ["launch", "kernel", "memory", "small copy", "pageable to host"])
def test_a_missing_measurement_is_named(what):
    rows = [row for row in timings() if row["what"] != what]
    with pytest.raises(ValueError, match=f"no measurement '{what}'"):
        fit(rows, "test", 1, PROVENANCE)


def test_float32_is_needed_and_times_are_positive():
    rows = [row for row in timings() if "float32" not in row["what"]]
    with pytest.raises(ValueError, match="float32 is needed"):
        fit(rows, "test", 1, PROVENANCE)
    rows = timings(noise=(1.0, 0.0, 1.0))
    with pytest.raises(ValueError, match="'launch': seconds"):
        fit(rows, "test", 1, PROVENANCE)


# The measuring, on devices whose numbers are known


def simulated_runtime():
    return Runtime(
        synchronize=sim.synchronize,
        event=lambda: sim.Event(enable_timing=True),
        clock=sim.now,
        pin=sim.pin_memory,
    )


@pytest.mark.parametrize(("gpu", "link"), [("v100", "pcie3"), ("a100", "nvlink3")])
def test_calibrating_a_simulated_gpu_finds_its_preset(gpu, link):
    (device,) = sim.configure(1, gpu=gpu, link=link, numerics=False)
    rows = measuring.measure(device, simulated_runtime(), repeats=3, sizes=(1024, 2048), count=50)
    calibration = fit(rows, gpu, 1, PROVENANCE)
    check_recovered(calibration, find_gpu(gpu), find_link(link), rel=0.05)


class WallClockEvent:
    """An event of a device that has no queue: the CPU."""

    def record(self):
        self.time = time.perf_counter()

    def query(self):
        return True

    def elapsed_time(self, other):
        return 1e3 * max(other.time - self.time, 1e-7)


def test_the_measuring_runs_on_real_tensors():
    runtime = Runtime(lambda: None, WallClockEvent, time.perf_counter, lambda tensor: tensor)
    rows = measuring.measure(
        torch.device("cpu"), runtime, repeats=3, sizes=(8, 16), copy_bytes=2**14, count=5
    )
    calibration = fit(rows, "cpu", 1, PROVENANCE)
    assert len({row["what"] for row in rows}) == len(rows)
    assert all(len(row["seconds"]) == 3 for row in rows)
    assert calibration.gpu.flops["float32"] > 0
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_dtype_without_products_is_left_out(monkeypatch):
    real = torch.mm

    def mm(a, b):
        if a.dtype == torch.bfloat16:
            raise RuntimeError("not implemented")
        return real(a, b)

    monkeypatch.setattr(torch, "mm", mm)
    runtime = Runtime(lambda: None, WallClockEvent, time.perf_counter, lambda tensor: tensor)
    stopwatch = measuring.Stopwatch(runtime, 3)
    rows = measuring._products(stopwatch, torch.device("cpu"), (8, 16))
    names = {row["what"] for row in rows}
    assert "product float16 16" in names
    assert not any("bfloat16" in name for name in names)


# Asking for what is not there


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:3", "sim:0"])
def test_calibrate_says_where_to_run(device):
    if device.startswith("cuda") and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    sim.configure(1)
    with pytest.raises(ValueError, match=r"only a CUDA device.*benchmarks/calibrate\.py"):
        calibrate(device)


# The file


@pytest.fixture
def calibration():
    return fit(timings(), "Test GPU (measured)", 16 * 2**30, PROVENANCE)


def test_a_saved_calibration_comes_back(tmp_path, calibration):
    calibration.save(tmp_path / "c.json")
    expected = (calibration.gpu, calibration.link)
    assert from_calibration(tmp_path / "c.json") == expected
    assert from_calibration(str(tmp_path / "c.json")) == expected
    data = json.loads((tmp_path / "c.json").read_text())
    assert from_calibration(data) == expected
    assert from_calibration(calibration) == expected
    assert data["provenance"] == PROVENANCE
    assert {"what", "amount", "seconds", "median", "spread"} == set(data["measurements"][0])
    assert data["gpu"]["sources"]["memory_bandwidth"] == "measured on Test GPU, 2026-11-20"


def test_a_calibration_configures_the_simulator(calibration):
    gpu, link = from_calibration(calibration)
    devices = sim.configure(2, gpu=gpu, link=link, numerics=False)
    assert len(devices) == 2
    sim.synchronize()
    a = torch.ones(1024, 1024, device=devices[0])
    torch.mm(a, a)
    sim.synchronize()
    product = next(s for s in sim.trace() if s.name == "mm" and s.engine == "compute")
    assert product.duration == pytest.approx(gpu.seconds(2 * 1024**3, 0))


def change(data, path, value):
    data = copy.deepcopy(data)
    *outer, last = path.split(".")
    part = data
    for name in outer:
        part = part[name]
    if value is KeyError:
        del part[last]
    else:
        part[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("format", "something", "field format is 'something'"),
        ("format", KeyError, "field format is None"),
        ("gpu", KeyError, "field gpu is None"),
        ("link", [1], r"field link is \[1\]"),
        ("gpu.memory", KeyError, "field gpu.memory is missing"),
        ("gpu.memory", "much", "field gpu: .*memory is 'much'"),
        ("gpu.flops.tf32", KeyError, "field gpu: .*lacks tf32"),
        ("link.bandwidth", -1, "field link: .*bandwidth is -1"),
        ("link.speed", 3, "field link.speed is unknown"),
    ],
)
def test_bad_files_name_the_field(tmp_path, calibration, path, value, message):
    data = change(calibration.to_dict(), path, value)
    with pytest.raises(ValueError, match=message):
        from_calibration(data)
    (tmp_path / "bad.json").write_text(json.dumps(data))
    with pytest.raises(ValueError, match=f"bad.json: {message}"):
        from_calibration(tmp_path / "bad.json")


def test_a_file_that_is_no_json(tmp_path):
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(ValueError, match="no JSON"):
        from_calibration(tmp_path / "c.json")
    with pytest.raises(FileNotFoundError):
        from_calibration(tmp_path / "none.json")
    (tmp_path / "c.json").write_text("[]")
    with pytest.raises(ValueError, match="field format is 'list'"):
        from_calibration(tmp_path / "c.json")


def test_calibration_is_what_fit_returns(calibration):
    assert isinstance(calibration, Calibration)


# The command benchmarks/calibrate.py


@pytest.fixture(scope="module")
def command():
    path = Path(__file__).parents[1] / "benchmarks" / "calibrate.py"
    spec = importlib.util.spec_from_file_location("calibrate_command", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_predictions_follow_the_hardware(command, calibration):
    names = ["product float32 3000", "copy 16 MB pinned to host", "copy 16 MB pageable to device"]
    link = find_link("pcie3")
    predicted = command.predict("v100", link, names)
    assert list(predicted) == names
    product = find_gpu("v100").seconds(2 * 3000**3, 0)
    assert predicted[names[0]] == pytest.approx(product, rel=0.02)
    pinned = link.host_seconds(16e6, pinned=True, to_host=True)
    assert predicted[names[1]] == pytest.approx(pinned, rel=0.05)
    assert predicted[names[2]] > 1.5 * predicted[names[1]]
    # The calibration of a preset's timings predicts what the preset predicts.
    fitted = command.predict(*from_calibration(calibration), names)
    assert fitted == pytest.approx(predicted, rel=0.02)


def test_training_steps_are_predicted(command):
    lenet, resnet = "LeNet step, batch 256", "ResNet-18 step, batch 64"
    v100 = command.predict("v100", "pcie4", [lenet, resnet])
    a100 = command.predict("a100", "pcie4", [lenet])
    assert 0 < a100[lenet] < v100[lenet] < v100[resnet] < 1


def test_errors_are_relative_to_the_median_measurement(command):
    predicted = {"a": 1.1, "b": 0.5, "c": 3.0}
    measured = {"a": [1.0, 9.0, 0.9], "b": [1.0] * 3, "c": [2.0, 2.0, 2.5]}
    rows, median_error = command.compare(predicted, measured)
    assert [row["error"] for row in rows] == pytest.approx([0.1, 0.5, 0.5])
    assert median_error == 0.5
    assert (rows[0]["low"], rows[0]["high"]) == (0.9, 9.0)
    assert "10.0%" in command.table(rows)


def test_the_record_holds_the_comparison_and_comes_back(
    command, calibration, tmp_path, monkeypatch
):
    names = ["product float32 512", "copy 1 MB pinned to host"]
    real_predict = command.predict
    monkeypatch.setattr(command, "calibrate", lambda device, repeats: calibration)
    monkeypatch.setattr(command, "predict", lambda gpu, link: real_predict(gpu, link, names))
    monkeypatch.setattr(command, "measure", lambda d, repeats: dict.fromkeys(names, [1e-4] * 3))
    command.main(["--out", str(tmp_path / "record.json")])
    record = json.loads((tmp_path / "record.json").read_text())
    assert [row["workload"] for row in record["comparison"]] == names
    assert record["median_error"] > 0
    assert from_calibration(tmp_path / "record.json")[0] == calibration.gpu


def test_measuring_on_this_machine(command, monkeypatch):
    """The measuring half, on the CPU, with one small product."""
    small = {"product float32 8": lambda device: command.product(device, "float32", 8)}
    monkeypatch.setattr(command, "workloads", lambda: small)
    samples = command.measure(torch.device("cpu"), 3)["product float32 8"]
    assert len(samples) == 3
    assert all(sample > 0 for sample in samples)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either --out"),
        (["--predict", "nothing"], "'nothing' is neither a file nor one of k80"),
        (["--out", "/no/such/folder/x.json"], "no folder /no/such/folder"),
        (["--predict", "v100", "--link", "isa"], "unknown Link 'isa'"),
        (["--out", "x.json", "--device", "cpu"], "only a CUDA device can be calibrated"),
    ],
)
def test_the_command_says_what_is_wrong(command, arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err

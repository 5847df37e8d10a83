"""Calibration, on simulated GPUs, whose numbers are known; its file; the command that compares."""

import dataclasses
import importlib.util
import json
import types
from contextlib import nullcontext

import pytest
import torch
from support.paths import ROOT

import simgpu as sim
from simgpu.calibration import stopwatch
from simgpu.calibration.calibration import calibrate, fit, from_calibration
from simgpu.calibration.stopwatch import Runtime

PROVENANCE = {"hardware": "Test GPU", "date": "2026-11-20", "repeats": 3}


def measured(gpu, link, with_peer=False):
    """Run the measurements on a simulated GPU."""
    device, peer = sim.configure(2, gpu=gpu, link=link, numerics=False)
    runtime = Runtime(
        synchronize=sim.synchronize,
        clock=sim.now,
        event=lambda: sim.Event(enable_timing=True),
        empty_pinned=sim.empty_pinned,
    )
    return stopwatch.measure(device, runtime, repeats=3, peer=peer if with_peer else None)


@pytest.fixture(scope="module")
def calibration():
    return fit(measured("v100", "pcie3"), 16 * 2**30, PROVENANCE)


SLOW_GPU = dataclasses.replace(sim.GPUS["t4"], launch_overhead=3e-6, kernel_overhead=8e-6)
SLOW_LINK = dataclasses.replace(sim.LINKS["nvlink2"], latency=2e-5, peer_latency=2e-5)


@pytest.mark.parametrize(
    ("gpu", "link"),
    [(sim.GPUS["a100"], sim.LINKS["pcie4"]), (SLOW_GPU, SLOW_LINK)],
    ids=["a100", "slow to start"],
)
def test_calibrating_a_simulated_gpu_finds_its_numbers(gpu, link):
    rows = measured(gpu, link, with_peer=True)
    found = fit(rows, 1, PROVENANCE)
    sizes = {row["what"]: round((row["amount"] / 2) ** (1 / 3)) for row in rows}
    for dtype, peak in gpu.flops.items():
        n = sizes[f"product {dtype}"]
        share = gpu.efficiency(dtype, [(n, n, n, 1)])
        assert found.gpu.flops[dtype] == pytest.approx(peak * share, rel=1e-3)
    achieved = gpu.memory_bandwidth * gpu.memory_efficiency
    assert found.gpu.memory_bandwidth == pytest.approx(achieved, rel=1e-3)
    assert (found.gpu.compute_efficiency, found.gpu.memory_efficiency) == (1, 1)
    for name in ("launch_overhead", "kernel_overhead"):
        assert getattr(found.gpu, name) == pytest.approx(getattr(gpu, name), rel=1e-3), name
    rates = ("bandwidth", "pageable_bandwidth", "pageable_to_host", "peer_bandwidth", "latency")
    for name in rates:
        assert getattr(found.link, name) == pytest.approx(getattr(link, name), rel=1e-3), name
    assert found.link.peer
    assert torch.get_float32_matmul_precision() == "highest"


def test_one_disturbed_repetition_does_not_matter():
    slower = [stopwatch._row("x", 1, [1.0, 5.0, 1.0]), stopwatch._row("x", 1, [1.0, 1.0, 1.0])]
    assert [row["median"] for row in slower] == [1, 1]
    assert [row["spread"] for row in slower] == [4, 0]


def test_a_host_that_cannot_fill_the_queue_is_an_error(monkeypatch):
    monkeypatch.setattr(sim.Event, "query", lambda event: True)
    with pytest.raises(RuntimeError, match="launches too slowly"):
        measured("v100", "pcie3")


def test_a_type_without_products_and_a_lone_gpu_are_named(monkeypatch):
    real = torch.mm

    def mm(a, b):
        if a.dtype == torch.bfloat16:
            raise RuntimeError("not implemented")
        return real(a, b)

    monkeypatch.setattr(torch, "mm", mm)
    found = fit(measured("a100", "nvlink3"), 1, PROVENANCE)
    assert found.gpu.flops["bfloat16"] == found.gpu.flops["float32"]
    assert "no such products" in found.gpu.sources["flops.bfloat16"]
    assert not found.link.peer
    assert "staged" in found.link.sources["peer"]


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:3", "sim:0"])
def test_calibrate_says_where_to_run(device):
    if device.startswith("cuda") and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    sim.configure(1)
    with pytest.raises(ValueError, match=r"only a CUDA device.*benchmarks/calibrate\.py"):
        calibrate(device)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_real_gpu_beside_simulated_ones_is_predicted():
    sim.configure(1)
    gpu, _ = from_calibration(calibrate("cuda:0", repeats=3))
    a = torch.randn(3000, 3000, device="cuda:0")
    clock = stopwatch.cuda_runtime("cuda:0").settled_clock
    with stopwatch.float32_precision("highest"):
        seconds = min(stopwatch.timings(lambda: torch.mm(a, a), clock, repeats=3))
    assert gpu.seconds(2 * 3000**3, 3 * a.nbytes) == pytest.approx(seconds, rel=0.3)
    assert 1e-7 < gpu.kernel_overhead < gpu.launch_overhead < 1e-4


@pytest.fixture
def cuda_of_two(monkeypatch):
    """Two CUDA devices, as far as `calibrate` looks, whose measurements are those of an A100."""
    peers, rows = [], measured("a100", "nvlink3", with_peer=True)

    def measure(device, runtime, repeats, peer):
        peers.append(peer)
        return rows

    for name, value in {
        "is_available": True, "current_device": 0, "device_count": 2, "get_device_name": "Fake",
        "can_device_access_peer": True, "device": nullcontext(),
        "get_device_properties": types.SimpleNamespace(total_memory=80 * 2**30),
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    monkeypatch.setattr(stopwatch, "measure", measure)
    return peers


def test_calibrate_asks_for_the_first_other_gpu_and_names_the_hardware(cuda_of_two):
    found = calibrate("cuda:0")
    assert cuda_of_two == [torch.device("cuda:1")]
    assert (found.gpu.name, found.gpu.memory) == ("Fake (measured)", 80 * 2**30)
    assert found.provenance["repeats"] == 7
    with pytest.raises(ValueError, match="repeats is 2"):
        calibrate("cuda:0", repeats=2)


def test_a_saved_calibration_comes_back_and_configures_the_simulator(tmp_path, calibration):
    calibration.save(tmp_path / "c.json")
    gpu, link = from_calibration(tmp_path / "c.json")
    assert (gpu, link) == from_calibration(calibration) == (calibration.gpu, calibration.link)
    assert "Test GPU, 2026-11-20" in gpu.sources["all"]
    device, _ = sim.configure(2, gpu=gpu, link=link, numerics=False)
    torch.ones(1024, 1024, device=device) @ torch.ones(1024, 1024, device=device)
    product = next(s for s in sim.trace() if s.name == "mm" and s.engine == "compute")
    assert product.duration == pytest.approx(gpu.seconds(2 * 1024**3, 0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="something"), "format is 'something'"),
        (lambda d: d.pop("link"), "'link'"),
        (lambda d: d["gpu"].pop("memory"), "'memory'"),
        (lambda d: d["gpu"].update(memory="much"), "memory is 'much'"),
        (lambda d: d["link"].update(speed=3), "'speed'"),
    ],
)
def test_bad_files_name_the_field(tmp_path, calibration, change, message):
    path = tmp_path / "bad.json"
    calibration.save(path)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=rf"bad\.json is no file of sim\.calibrate: .*{message}"):
        from_calibration(path)
    path.write_text("{")
    with pytest.raises(ValueError, match=r"bad\.json is no file"):
        from_calibration(path)


# The command benchmarks/calibrate.py


@pytest.fixture(scope="module")
def command():
    path = ROOT / "benchmarks" / "calibrate.py"
    spec = importlib.util.spec_from_file_location("calibrate_command", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_predictions_follow_the_hardware(command):
    gpu, link = sim.GPUS["a100"], sim.LINKS["pcie3"]
    for dtype in ("float32", "tf32"):
        seconds = gpu.matmul_seconds(3000, 3000, 3000, dtype=dtype)
        assert command.predict(f"product {dtype} 3000", gpu, link) == pytest.approx(seconds, 0.02)
    for kind in ("pinned", "pageable"):
        for way in ("to host", "to device"):
            seconds = link.host_seconds(16e6, kind == "pinned", way == "to host")
            predicted = command.predict(f"copy 16 MB {kind} {way}", gpu, link)
            assert predicted == pytest.approx(seconds, 0.01)
    steps = [
        command.predict(f"{name} step, batch 256", gpu, link) for name in ("LeNet", "ResNet-18")
    ]
    assert 0 < steps[0] < steps[1] < 1


def test_the_record_compares_and_is_valid(command, cuda_of_two, tmp_path, monkeypatch, capsys):
    names, devices, real = ["product float32 512", "copy 1 MB pinned to host"], [], command.measure
    errors = []

    def measure(workload, device, repeats):
        devices.append(device.type)
        return real(workload, device, repeats) if device.type == "sim" else [2e-4, 1e-4, 9.0]

    monkeypatch.setattr(command, "WORKLOADS", {name: command.WORKLOADS[name] for name in names})
    monkeypatch.setattr(command, "measure", measure)
    path = tmp_path / "calibration-fake.json"
    command.main(["--out", str(path)])
    record = json.loads(path.read_text())
    assert {"provenance", "measurements"} <= record.keys()
    assert devices == ["cuda", "cuda", "sim", "sim"]  # no prediction before the measuring is done
    for name, row in zip(names, record["comparison"], strict=True):
        predicted = command.predict(name, *from_calibration(path))
        assert (row["workload"], row["predicted"]) == (name, pytest.approx(predicted))
        assert row["seconds"] == [2e-4, 1e-4, 9.0]
        errors.append(abs(predicted / 2e-4 - 1))
    assert f"median error {sum(errors) / 2:.1%}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: --out"),
        (["--out", "/no/such/folder/x.json"], "no folder /no/such/folder"),
        (["--out", "x.json", "--device", "cpu"], "only a CUDA device can be calibrated"),
    ],
)
def test_the_command_says_what_is_wrong(command, arguments, message, capsys):
    with pytest.raises(SystemExit):
        command.main(arguments)
    assert message in capsys.readouterr().err

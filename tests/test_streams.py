"""Real and simulated GPUs by the same names: streams, clocks, waiting."""

import pytest
import torch

from d2lmini import Event, Stream, current_stream, devices_in_use, gpus, now, synchronize


@pytest.mark.parametrize("make", [Stream, Event, current_stream])
def test_a_cpu_has_no_streams(make):
    with pytest.raises(ValueError, match="cpu has no"):
        make("cpu")


def test_real_and_simulated_clocks_do_not_mix():
    gpus(1, gpu="v100")
    with pytest.raises(ValueError, match="different clocks"):
        now("cuda:0", "sim:0")


def test_now_advances_by_the_launches_and_synchronize_by_the_work(capsys):
    (device,) = gpus(1, gpu="v100", numerics=False)
    x = torch.ones(4000, 4000, device=device)
    synchronize(device)
    start = now(device)
    x @ x
    launched = now(device)
    synchronize(device)
    assert 0 < launched - start < 1e-3 < now(device) - start


def test_real_devices_are_synchronised_one_by_one(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    synchronize("cuda:0", "cpu", "cuda:2")
    assert waited == [torch.device("cuda:0"), torch.device("cuda:2")]


def test_cuda_devices_in_use_are_those_that_hold_memory(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda i: i % 2)
    in_use = [d for d in devices_in_use() if d.type == "cuda"]
    assert in_use == [torch.device("cuda:1")]

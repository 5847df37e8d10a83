"""What the chapter on devices draws and compares: updates, and the kernels among their spans."""

import pytest
import torch

from d2lmini import gpus, record
from d2lmini.pages.devices import kernels, language_update, lenet_update, seconds


@pytest.fixture(scope="module")
def updates():
    """Return updates of LeNet, which is launch-bound, on one GPU and on two."""
    return {k: lenet_update(k) for k in (1, 2)}


@pytest.mark.slow
def test_lenet_shares_its_images_between_the_gpus(updates):
    one, two = updates.values()
    assert {s.device for s in two.spans} == {"host", "sim:0", "sim:1"}
    assert seconds(two) > 1.8 * seconds(one)
    copied = [sum(s.bytes for s in t.spans if s.engine == "h2d") for t in (one, two)]
    assert copied[0] == copied[1] == 256 * (28 * 28 * 4 + 8)
    assert seconds(lenet_update(1, 128)) < 1.2 * seconds(lenet_update(1, 64))


@pytest.mark.slow
def test_the_language_model_keeps_two_gpus_busy():
    one, two = (language_update(k, 8) for k in (1, 2))
    assert 1.7 < seconds(one) / seconds(two) < 2
    assert all(two.busy()[f"sim:{i}", "compute"] > 0.9 for i in range(2))
    flops = [sum(s.flops for s in kernels(t, "sim:0")) for t in (one, two)]
    assert flops[0] == 2 * flops[1]
    assert flops[0] > 6 * 85e6 * 8 * 1024, "at least 6 for each weight of a block and character"


def test_kernels_are_those_of_one_device_in_order():
    devices = gpus(2, numerics=False, quiet=True)
    A, B = (torch.ones(9, 9, device=device) for device in devices)
    with record(*devices) as recording:
        A @ A
        B * 2
        A + A
        B.to(devices[0])
    names = [span.name for span in kernels(recording.timeline, devices[0])]
    assert names == ["mm", "add"]
    assert [span.name for span in kernels(recording.timeline, "sim:1")] == ["mul"]
    assert kernels(recording.timeline, "sim:7") == []

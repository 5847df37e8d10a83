"""What the chapter from scratch times and compares: in proportion to what it is given."""

import pytest
import torch

from d2lmini import allreduce, gpus, record
from d2lmini.collectives import allreduce_ring
from d2lmini.pages.multiple_gpus import (
    count_launches,
    max_difference,
    measure_sum,
    resnet_update,
    step_seconds,
)


def test_the_largest_difference_is_found_in_any_tensor_and_sign():
    ones = [torch.ones(2), torch.ones(3, device=gpus(1, quiet=True)[0])]
    others = [torch.ones(2), torch.tensor([1.0, 3.5, 0.0])]
    assert max_difference(ones, others) == max_difference(others, ones) == 2.5
    assert max_difference(ones, ones) == 0
    with pytest.raises(ValueError, match="shorter"):
        max_difference(ones, others[:1])


def test_a_small_update_takes_its_launches():
    short, long = (step_seconds(1, 1, there=True, launch=us * 1e-6) for us in (10, 20))
    again = step_seconds(2, 2, there=True, launch=20e-6)
    assert 1.9 < long / short < 2.1
    assert again > 2 * long


@pytest.mark.slow
def test_images_that_are_there_are_not_copied():
    there, copied = (step_seconds(2, 2**14, there) for there in (True, False))
    assert copied > 1.5 * there
    assert step_seconds(2, 2**14, steps=6) == pytest.approx(copied, rel=0.05)


def collect(data):
    for d in data[1:]:
        data[0] += d.to(data[0].device)


@pytest.mark.parametrize(
    ("function", "k", "taken"),
    [(allreduce, 4, 3), (allreduce_ring, 4, 1.5), (allreduce, 2, 1), (collect, 4, 3)],
)
def test_traffic_of_a_sum_is_that_of_the_busiest_device(function, k, taken):
    seconds, found = measure_sum(function, k, 4 * 10**8)
    assert found == pytest.approx(taken)
    assert 1.9 < measure_sum(function, k, 8 * 10**8)[0] / seconds < 2.0


def test_launches_are_counted_on_the_host():
    device = gpus(1, numerics=False, quiet=True)[0]
    x = torch.ones(10, device=device)
    with record(device) as recording:
        for _ in range(5):
            x = x + 1
    assert count_launches(recording.timeline) == 5


@pytest.mark.slow
def test_resnet_shares_its_images_between_the_gpus():
    one, two = resnet_update(1), resnet_update(2)
    assert {span.device for span in two.spans} == {"host", "sim:0", "sim:1"}
    assert count_launches(two) > 2 * count_launches(one)
    busy = [t.busy()["sim:0", "compute"] * (t.end - t.start) for t in (one, two)]
    assert 0.4 < busy[1] / busy[0] < 0.65

"""What the chapter on automatic parallelism times and checks, in proportion to what it is given."""

import pytest
import torch

from d2lmini import empty_pinned, gpus, record
from d2lmini.pages.auto_parallelism import engine_shares, has_race, median_seconds, times_alone


def test_the_first_run_does_not_count():
    (device,) = gpus(1, numerics=False, quiet=True)
    x, runs = torch.ones(3000, 3000, device=device), []

    def work(first, later):
        runs.append(1)
        return [x @ x for _ in range(first if len(runs) == 1 else later)]

    short = median_seconds([device], work, 50, 2)
    assert len(runs) == 4
    runs.clear()
    long = median_seconds([device], work, 1, 8, repeats=3)
    assert len(runs) == 3
    assert 3.8 < long / short < 4.2


def test_shares_are_those_of_kernels_and_of_copies_to_the_host():
    (device,) = gpus(1, numerics=False, quiet=True)
    x, buffer = torch.ones(2000, 2000, device=device), empty_pinned(2000, 2000, device=device)
    with record(device) as recording:
        buffer.copy_(x, non_blocking=True)
        x @ x
        x @ x
    compute, copy = engine_shares(recording.timeline, device)
    spans = {span.engine: span.duration for span in recording.timeline.spans}
    assert compute / copy == pytest.approx(2 * spans["compute"] / spans["d2h"])
    assert compute + copy <= 1


@pytest.mark.parametrize(("remedy", "race"), [("none", True), ("keep", False)])
def test_a_dropped_tensor_is_a_race_unless_it_is_kept(remedy, race):
    assert has_race(remedy) == race
    assert has_race("record_stream") is False


def test_each_kind_of_work_is_timed_alone():
    devices = gpus(2, numerics=False, quiet=True)
    sources, targets = (
        [[empty_pinned(n, n, device=d)] * 4 for d, n in zip(devices, (1000, 2000), strict=True)]
        for _ in range(2)
    )
    times = times_alone(devices, sources, targets)
    assert len(times) == 6
    assert all(3 < times[i + 3] / times[i] < 4.2 for i in (0, 2)), "bytes of copies"
    assert 6 < times[4] / times[1] < 8.2, "FLOPs of products"

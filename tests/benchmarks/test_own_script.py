"""A user's script with FSDP2 and plain attention on GPUs on which it was published to run."""

import pytest

from benchmarks.published import own_script


@pytest.mark.parametrize(("row", "recorded"), zip(own_script.ROWS, own_script.read(), strict=True))
def test_rows_that_ran_fit(row, recorded):
    rate, reserved, memory = recorded
    assert reserved < memory
    assert 0.5 * row.rate < rate < 2 * row.rate


@pytest.mark.process
@pytest.mark.slow
def test_the_row_on_40_gb_runs_as_recorded():
    row = own_script.ROWS[0]
    assert own_script.numbers(row, own_script.run(row)) == pytest.approx(own_script.read()[0])

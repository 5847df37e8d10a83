"""A user's script with FSDP2 and plain attention on GPUs on which it was published to run."""

import re

import pytest
from support.paths import ROOT

from benchmarks.published import own_script


@pytest.mark.parametrize(
    ("row", "recorded"), list(zip(own_script.ROWS, own_script.read(), strict=True))
)
def test_rows_that_ran_fit(row, recorded):
    rate, reserved, memory = recorded
    assert reserved < memory
    assert row.rate < rate < 1.6 * row.rate, "too fast, as the page says"


@pytest.mark.long
@pytest.mark.process
@pytest.mark.slow
def test_the_row_on_40_gb_runs_as_recorded():
    row = own_script.ROWS[0]
    assert own_script.numbers(row, own_script.run(row)) == pytest.approx(own_script.read()[0])


def test_the_page_says_how_long_it_is():
    page = (ROOT / "benchmarks/published/page/page.md").read_text(encoding="utf-8")
    said = re.search(r"This one is (\d+) lines", page)[1]
    assert int(said) == len(own_script.SCRIPT.read_text(encoding="utf-8").splitlines())

"""The record of Inductor's kernels is what Inductor makes, and counts what kernels touch."""

import subprocess
import sys

import pytest
from support.inductor import record
from support.inductor.programs import PROGRAMS
from support.paths import ROOT, TESTS

CHECKS = TESTS / "support" / "inductor" / "checks.py"


def test_all_programs_are_recorded():
    assert record.read().keys() == PROGRAMS.keys()


def test_a_record_is_read_as_it_was_written(tmp_path):
    record.write(record.read(), tmp_path / "kernels.json")
    assert record.read(tmp_path / "kernels.json") == record.read()


@pytest.mark.long
@pytest.mark.process
@pytest.mark.slow
def test_the_oracle_makes_what_is_recorded_and_counts_what_kernels_touch():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:nbval"]
    found = subprocess.run([*command, str(CHECKS)], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
    assert "10 passed" in found.stdout

"""Quantities are readable, and colours are defined in one place."""

import re

import pytest
from support.paths import ROOT

from simgpu import units


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "B", "0 B"),
        (5e-10, "B", "0.5 nB"),
        (512, "B", "512 B"),
        (999.7, "B", "1 kB"),
        (64e6, "B", "64 MB"),
        (1e15, "B", "1 PB"),
        (3e18, "B", "3,000 PB"),
        (9.16e-7, "s", "916 ns"),
        (59e-6, "s", "59 µs"),
        (0.00123, "s", "1.23 ms"),
        (0.9999, "s", "1 s"),
        (1234, "s", "1,230 s"),
        (154e9, "FLOP/s", "154 GFLOP/s"),
        (3.2e10, "B/s", "32 GB/s"),
        (123456, "images/s", "123,000 images/s"),
        (0.0512, "images/s", "0.0512 images/s"),
    ],
)
def test_quantities(value, unit, text):
    assert units.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("seconds", "unit"), [(0, "µs"), (1e-9, "µs"), (9e-4, "µs"), (1e-3, "ms"), (1, "s"), (5e4, "s")]
)
def test_units_of_an_axis(seconds, unit):
    name, per_second = units.time_unit(seconds)
    assert (name, per_second) == (unit, {"µs": 10**6, "ms": 1000, "s": 1}[unit])


@pytest.mark.parametrize(
    ("num_bytes", "text"), [(512, "512 B"), (4096, "4 KiB"), (2**24, "16 MiB"), (2**31, "2 GiB")]
)
def test_sizes(num_bytes, text):
    assert units.size(num_bytes) == text


def test_colours_are_defined_in_one_place():
    colours = {value.upper() for value in vars(units).values() if re.match("#", str(value))}
    assert len(colours) == 13
    for folder in ("simgpu", "d2lmini", "tools", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.name != "units.py":
                found = re.findall("#[0-9A-F]{6}", path.read_text(encoding="utf-8").upper())
                assert not colours & set(found), path

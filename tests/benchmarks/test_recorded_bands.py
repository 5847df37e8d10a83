"""The bands that `simgpu` prints are those of the records."""

from dataclasses import replace

import pytest

from benchmarks.published import bands, record
from benchmarks.published.bands import Row, Widening, band_of, checks, left_out, widening
from simgpu.bands import find
from simgpu.bands.kinds import ENOUGH, Kind

KIND = Kind("h100", "16-bit", "kernels", "eager", "one node")


def rows(multiples, source="a", kind=KIND):
    return [Row(kind, source, multiple) for multiple in multiples]


def test_the_file_is_what_the_records_give():
    stored = find.FILE.read_text(encoding="utf-8")
    assert stored == bands.printed(), "python -m benchmarks.published.page"


def test_rows_to_which_a_constant_was_fitted_count_as_without_the_fit():
    (vtrain,) = [t for t in record.read()[0] if t.family == "vtrain" and len(t.rows) > 100]
    source = bands.source_of(vtrain, vtrain.predictions[0])
    found = [row.multiple for row in bands.rows() if row.source == source]
    for p in vtrain.predictions[:20]:
        if p.kind:
            assert p.measured / p.unfitted in found
    assert max(found) > 5, "as launches of 5 us give it"


def test_a_step_of_two_records_counts_once():
    found = bands.rows()
    assert len({row.source for row in found}) > 10
    (llama,) = [row for row in found if row.source == "liang2024torchtitan"
                and row.kind.code == "eager"]  # fmt: skip
    assert llama.kind.place == "one node"


def test_a_band_by_hand():
    few = band_of(KIND, rows([0.93, 1.0, 1.21]))
    assert (few.rows, few.low, few.high, few.median) == (3, 0.9, 1.25, 1.0)
    many = band_of(KIND, rows([1.0] * 38 + [0.5, 2.0]))
    assert (many.rows, many.sources) == (40, 1)
    assert (many.low, many.high) == (1.0, 1.0), "nine of ten"
    wider = band_of(KIND, rows([1.0] * 40), Widening(1.25, 1.1))
    assert (wider.low, wider.high) == (0.8, 1.25)
    assert band_of(KIND, rows([1.0] * 3), Widening(1.25)).low == 1.0, "all of a few are shown"


def test_a_source_of_few_rows_weighs_as_much_as_one_of_many():
    both = band_of(KIND, [*rows([1.0] * 38), *rows([0.5, 2.0], "b")], Widening(2.0, 1.0))
    assert (both.rows, both.sources) == (40, 2)
    assert (both.low, both.high) == (0.5, 2.0)
    third = [*rows([1.0] * 380), *rows([1.0] * 20, "b"), *rows([3.0] + [1.0] * 19, "c")]
    assert band_of(KIND, third).high == 1.0, "a twentieth of a third"


def test_a_source_is_judged_by_the_others():
    found = [*rows([1.0] * 20), *rows([1.0] * 19 + [3.0], "b")]
    inside = {row.source: [x for one, x in left_out(found) if one.source == row.source]
              for row in found}  # fmt: skip
    assert inside == {"a": [True] * 20, "b": [True] * 19 + [False]}
    (one,) = checks(found)
    assert (one.band.rows, one.judged, one.inside) == (40, 40, 39)
    assert (one.least, one.most) == (1.0, 3.0)


def test_bands_are_as_much_wider_as_other_sources_need():
    """Each source counts alike: ten rows of one as much as twenty of another."""
    assert widening([*rows([1.0] * 20), *rows([1.0] * 20, "b")]) == Widening(1.0, 1.0)
    apart = widening([*rows([1.0] * 20), *rows([1.2] * 10, "b")])
    assert apart == Widening(1.2, 1.0), "each is judged by one other"
    third = [*rows([1.0] * 20), *rows([1.2] * 10, "b"), *rows([1.4] * 10, "c")]
    assert widening(third) == Widening(1.4, 1.15), "1.38, and bands end at multiples of 0.05"


def test_a_kind_of_one_source_is_not_judged():
    (one,) = checks(rows([1.0] * ENOUGH))
    assert (one.judged, one.inside) == (0, 0)


def test_kinds_with_too_few_rows_are_judged_by_what_they_are_taken_with():
    other = replace(KIND, code="compiled")
    found = [*rows([1.0] * ENOUGH), *rows([1.0] * ENOUGH, "b", other)]
    assert [one.judged for one in checks(found)] == [2 * ENOUGH]


@pytest.mark.long
def test_the_command_says_how_good_each_band_is(capsys):
    bands.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(checks(bands.rows()))
    assert all(" of other sources inside: " in line for line in lines)

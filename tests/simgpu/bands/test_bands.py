"""Bands of predicted times: the kind of a run, and which published rows stand for it."""

from dataclasses import replace
from itertools import pairwise

import pytest

from simgpu.bands.find import Band, bands, find_band, in_words
from simgpu.bands.kinds import ENOUGH, FEATURES, LEVELS, Kind, broader, kind_of, limit_of
from simgpu.network.cluster import build_cluster

KIND = Kind("h100", "16-bit", "kernels", "eager", "one node")
PART = replace(KIND, limit="", code="")  # any limit but launches, compiled or not


def band(kind, rows, sources=2):
    return {kind: Band(kind, rows, sources, 0.9, 1.3, 1.0)}


@pytest.mark.parametrize(
    ("causes", "limit"),
    [
        ({"compute": 0.5, "memory bandwidth": 0.4, "launches": 0.03}, "kernels"),
        ({"compute": 0.4, "memory bandwidth": 0.5}, "kernels"),
        ({"compute": 0.4, "communication": 0.3, "copies": 0.2}, "wires"),
        ({"compute": 0.4, "memory bandwidth": 0.4, "communication": 0.3}, "kernels"),
        ({"compute": 0.9, "launches": 0.1}, "launches"),
        # Half of the time a rank waits: 3 % of all is 6 % of what it works.
        ({"compute": 0.47, "launches": 0.03, "waiting for others": 0.5}, "launches"),
        ({"waiting for others": 1.0}, "kernels"),
    ],
)
def test_what_limits_a_run(causes, limit):
    assert limit_of(causes) == limit


def test_the_kind_of_a_run():
    causes = {"compute": 1.0}
    one = kind_of(build_cluster(1, "a100"), "tf32", causes, False)
    assert one == Kind("a100", "32-bit", "kernels", "eager", "one GPU")
    many = kind_of(
        build_cluster(16, "h100", nodes=2, network="ndr"), "float8", causes, True, True, True
    )
    assert many == Kind("h100", "8-bit", "kernels", "compiled", "several nodes", "experts",
                        "split")  # fmt: skip
    assert str(many) == (
        "H100, 8-bit, compiled, several nodes, experts, split sequences, "
        "kernels take more than wires"
    )


def test_a_card_with_another_memory_is_of_the_same_family():
    cluster = build_cluster(1, "h100")
    gpu = replace(cluster.gpu, name="h100-96")
    assert kind_of(replace(cluster, gpu=gpu), "float16", {"compute": 1}, False).gpu == "h100"


def test_the_first_level_with_enough_rows_of_two_sources_counts():
    known = band(KIND, ENOUGH - 1) | band(PART, ENOUGH)
    assert find_band(KIND, known).kind == PART
    assert find_band(KIND, known | band(KIND, ENOUGH)).kind == KIND
    assert find_band(KIND, known | band(KIND, ENOUGH, sources=1)).kind == PART


def test_rows_of_one_source_count_where_no_level_has_two():
    known = band(KIND, ENOUGH, sources=1) | band(PART, 3 * ENOUGH, sources=1)
    assert find_band(KIND, known).kind == KIND


def test_of_too_few_rows_the_most_are_shown():
    few = find_band(KIND, band(KIND, 1) | band(PART, ENOUGH - 1))
    assert few.kind == PART
    assert not few.is_known
    assert few.span is None


@pytest.mark.parametrize(
    "change",
    [{"gpu": "b200"}, {"numbers": "8-bit"}, {"model": "experts"}, {"sequences": "split"},
     {"limit": "launches"}],
)  # fmt: skip
def test_some_features_are_never_exchanged(change):
    known = {kind: one for kind in broader(KIND) for kind, one in band(kind, 99).items()}
    assert find_band(KIND, known)
    assert find_band(replace(KIND, **change), known) is None


def test_where_launches_limit_any_gpu_will_do_at_last():
    launches = replace(KIND, limit="launches")
    *_, last = broader(launches)
    assert last == Kind("", "", "launches", "", "")
    assert find_band(replace(launches, gpu="b200"), band(last, ENOUGH)).kind == last
    assert all(kind.limit == "launches" for kind in broader(launches))


def test_each_level_keeps_a_part_of_the_one_before():
    assert LEVELS[0] == FEATURES
    assert all({*b} < {*a} for a, b in pairwise(LEVELS))


def test_the_words():
    kind = replace(KIND, gpu="nobody's")
    assert in_words(1.0, kind).startswith("not known: no step of this kind was published (NOBODY")


def test_bands_are_wider_where_launches_limit():
    known = bands().values()
    wide = [one.high for one in known if one.is_known and one.kind.limit == "launches"]
    others = [one.high for one in known if one.is_known and one.kind.limit != "launches"]
    assert min(wide) > 1.5
    assert max(wide) > max(others)


def test_the_bands_have_their_numbers_in_order():
    assert bands()
    for one in bands().values():
        assert 0 < one.low <= one.median <= one.high
        assert 1 <= one.sources <= one.rows


def test_a_band_is_said_with_its_rows_and_its_sources():
    one = next(one for one in bands().values() if one.is_known and one.kind in broader(one.kind))
    words = in_words(2.0, one.kind)
    assert words.startswith("nine of ten such steps take ")
    assert f"by {find_band(one.kind).rows} published ones (" in words

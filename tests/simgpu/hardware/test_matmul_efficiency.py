"""The efficiency of products: quantisation by hand, limits, and the published best."""

import dataclasses
import itertools

import pytest

from simgpu.hardware import find_gpu
from simgpu.hardware.matmul_efficiency import BEST, DEPTH_LOSS, THIN, matmul_efficiency

A100 = find_gpu("a100")
DEEP = 2**20  # so deep that filling a tile costs nothing


def share(m, n, k=DEEP, batch=1):
    return matmul_efficiency(m, n, k, batch, 108, 1.0)


def test_a_full_wave_of_full_tiles_loses_nothing():
    """9 x 12 tiles of 256 x 128 are one for each of 108 multiprocessors."""
    assert share(9 * 256, 12 * 128) == pytest.approx(1, rel=1e-3)


def test_an_empty_half_of_the_multiprocessors_is_lost():
    """One tile too many: 109 in two rounds, unless smaller tiles fill the rounds better."""
    full, more = share(9 * 256, 12 * 128), share(9 * 256, 12 * 128 + 1)
    assert 0.5 < more < 0.9 * full


def test_the_edge_of_a_tile_is_lost():
    """64 x 64 is the smallest tile: one column more than tiles hold wastes nearly a tile each."""
    assert share(108 * 64, 64) > share(108 * 64, 65) > 0.5 * share(108 * 64, 128)


def test_depth():
    for k in (64, 128, 1024, 8192):
        whole = share(9 * 256, 12 * 128, k)
        assert whole >= k / (k + DEPTH_LOSS) * (1 - 1e-12)
    assert share(9 * 256, 12 * 128, DEPTH_LOSS) == pytest.approx(0.5)


def test_deeper_is_never_less_efficient():
    shares = [share(3000, 3000, k) for k in range(THIN, 20000, 400)]
    for less, more in itertools.pairwise(shares):
        assert less <= more * (1 + 1e-12)


def test_a_small_result_is_split_along_its_depth():
    """16 tiles alone would use 16 of 108 multiprocessors."""
    assert share(512, 1024, 16384) > 2 * 16 / 108


def test_products_in_a_batch_fill_the_gpu_together():
    assert share(256, 128, 1024, batch=108) > 10 * share(256, 128, 1024) / 8
    assert share(256, 128, DEEP, batch=108) == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "published"), [("a100", 0.869), ("h100", 0.803), ("h200", 0.803), ("b200", 0.776)]
)
def test_the_best_shape_reaches_what_was_published(name, published):
    gpu = find_gpu(name)
    rates = [
        2 * m * n * k / gpu.matmul_seconds(m, n, k, dtype="bfloat16") / gpu.flops["bfloat16"]
        for m in range(4096, 20480, 1024)
        for n in (8192, 12288, 16384)
        for k in (4096, 16384)
    ]
    assert max(rates) == pytest.approx(published, rel=0.03)
    assert max(rates) < published
    assert min(rates) < 0.95 * max(rates)


def test_all_gpus_follow_one_rule():
    """The share relative to the best depends on the shape and the multiprocessors alone."""
    h100, h200 = find_gpu("h100"), find_gpu("h200")
    for m, n, k in ((1024, 1024, 1024), (4096, 4096, 4096), (500, 3000, 128)):
        assert matmul_efficiency(m, n, k, 1, 132, 0.4) == pytest.approx(
            matmul_efficiency(m, n, k, 1, 132, 0.8) / 2
        )
        if k > 1000:
            assert h100.matmul_seconds(m, n, k, dtype="bfloat16") == pytest.approx(
                h200.matmul_seconds(m, n, k, dtype="bfloat16")
            )


def test_seconds_of_a_product_by_hand():
    m, n, k = 9 * 256, 12 * 128, DEPTH_LOSS
    expected = A100.kernel_overhead + 2 * m * n * k / (312e12 * 0.869 * 0.5)
    assert A100.matmul_seconds(m, n, k, dtype="bfloat16") == pytest.approx(expected)
    thin = A100.matmul_seconds(1, 4096, 4096, dtype="float16")
    assert thin > 4096**2 * 2 / A100.memory_bandwidth


def test_a_gpu_without_multiprocessors_has_one_efficiency():
    plain = dataclasses.replace(A100, multiprocessors=None, matmul_efficiency=None)
    m, n, k = 100, 200, 300
    nbytes = 4 * (m * k + k * n + m * n)
    assert plain.matmul_seconds(m, n, k) == A100.seconds(2 * m * n * k, nbytes)
    assert plain.matmul_seconds(m, n, k) == plain.seconds(2 * m * n * k, nbytes)


def test_a_gpu_of_which_nobody_has_published_a_best_gets_the_rules():
    best = dataclasses.replace(find_gpu("v100"), matmul_efficiency=BEST)
    assert find_gpu("v100").matmul_efficiency is None
    assert best.matmul_seconds(4096, 4096, 4096) == find_gpu("v100").matmul_seconds(
        4096, 4096, 4096
    )


def test_eight_bit_products_are_for_those_who_have_them():
    assert find_gpu("h100").matmul_seconds(8192, 8192, 8192, dtype="float8") < 0.6 * find_gpu(
        "h100"
    ).matmul_seconds(8192, 8192, 8192, dtype="bfloat16")
    with pytest.raises(ValueError, match=r"a100 has no peak for dtype 'float8'.*bfloat16"):
        A100.matmul_seconds(8, 8, 8, dtype="float8")


@pytest.mark.parametrize("shape", [(0, 8, 8, 1), (8, -1, 8, 1), (8, 8, 0, 1), (8, 8, 8, 0)])
def test_empty_products_are_refused(shape):
    with pytest.raises(ValueError, match="give positive sizes"):
        matmul_efficiency(*shape, 108)


@pytest.mark.parametrize("bad", [0, -1, "many"])
def test_bad_numbers_are_refused(bad):
    with pytest.raises(ValueError, match="multiprocessors"):
        dataclasses.replace(A100, multiprocessors=bad)
    with pytest.raises(ValueError, match="matmul_efficiency"):
        dataclasses.replace(A100, matmul_efficiency=bad)

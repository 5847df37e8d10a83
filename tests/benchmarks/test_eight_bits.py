"""What products of 8-bit numbers gain, as the page on trust says."""

import itertools

import pytest

from benchmarks.published.study import eight_bits


def test_wider_layers_and_more_tokens_gain_more():
    rows = eight_bits.read()["by_width"]
    gains = {(one["width"], one["tokens"]): one["gain"] for one in rows}
    few, many = sorted({tokens for _, tokens in gains})
    widths = sorted({width for width, _ in gains})
    for tokens in (few, many):
        for narrow, wide in itertools.pairwise(widths):
            assert gains[narrow, tokens] < gains[wide, tokens]
    for width in widths:
        assert gains[width, few] < gains[width, many]


@pytest.mark.long
@pytest.mark.slow
def test_the_record_is_what_is_predicted_now():
    found = eight_bits.read()
    model, options = eight_bits.PUBLISHED
    assert found["published"] == pytest.approx(eight_bits.gain(model, **options))
    first = found["by_width"][0]
    assert first["gain"] == pytest.approx(eight_bits.gain("gpt3-125m", micro_batch=1))

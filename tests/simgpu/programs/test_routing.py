"""Distributions of tokens over experts, and which values follow from them without others."""

import math

import pytest
import torch
from torch.nn import functional as F

import simgpu as sim
from simgpu.backend.routing import MOST_EXPERTS, Routing

STATED = [None, "balanced", "zipf:1.2", "zipf:4", [0.5, 0.25, 0.25, 0], [3, 1, 1, 1]]


@pytest.mark.parametrize("stated", STATED)
@pytest.mark.parametrize(
    ("tokens", "each"), [(1, 1), (16, 2), (17, 2), (17, 3), (1000, 1), (1000, 2)]
)
def test_each_token_goes_to_different_experts_and_all_are_counted(stated, tokens, each):
    routing = Routing(stated)
    counts, chosen = routing.counts(tokens, each, 4), routing.choose(tokens, each, 4)
    assert sum(counts) == tokens * each
    assert torch.bincount(chosen.flatten(), minlength=4).tolist() == counts
    assert all(len(set(row)) == each for row in chosen.tolist())
    assert torch.equal(chosen, Routing(stated).choose(tokens, each, 4))


def test_counts_are_the_shares():
    assert Routing().counts(1000, 2, 8) == [250] * 8
    assert Routing("0.5,0.25,0.25").counts(1000, 1, 3) == [500, 250, 250]
    weights = [(i + 1) ** -1.2 for i in range(8)]
    for count, weight in zip(Routing("zipf:1.2").counts(10_000, 1, 8), weights, strict=True):
        assert abs(count - 10_000 * weight / sum(weights)) < 1


def test_an_expert_gets_each_token_once_at_most_and_others_what_is_left():
    assert Routing([8, 1, 1]).counts(100, 2, 3) == [100, 50, 50]


def test_tokens_of_an_expert_are_spread_over_the_batch():
    """A part of the batch has about the shares of all, and so has each place among the choices."""
    chosen = Routing("zipf:1").choose(1000, 2, 4)
    whole = torch.bincount(chosen.flatten(), minlength=4) / 2000
    for part in (*chosen.split(250), chosen[:, 0], chosen[:, 1]):
        share = torch.bincount(part.flatten(), minlength=4) / part.numel()
        assert (share - whole).abs().max() < 0.03


@pytest.mark.parametrize(
    "stated",
    ["even", "zipf", "zipf:", "zipf:x", "zipf:-1", "zipf:nan", "1", "0,0", "0.5,x", "0.5,-1", [1],
     [True, False], [1, math.inf], "nan,1", 5],
)  # fmt: skip
def test_what_is_no_distribution_is_refused_by_name(stated):
    with pytest.raises(ValueError, match="give ") as error:
        Routing(stated)
    assert repr(stated) in str(error.value)


def test_too_few_experts_with_a_share():
    with pytest.raises(ValueError, match=r"a share to 1 of 4 .* 2 different ones; give .* 2 or mo"):
        Routing("1,0,0,0").counts(10, 2, 4)


def test_routing_is_for_machines_without_values():
    with pytest.raises(ValueError, match="routing='balanced' needs numerics=False"):
        sim.configure(1, routing="balanced")
    with pytest.raises(ValueError, match="routing 'even': give balanced"):
        sim.configure(1, numerics=False, routing="even")


TOKENS, EXPERTS, EACH = 600, 6, 2
COUNTS = [300, 180, 180, 180, 180, 180]  # of the shares below


def scores(device, experts=EXPERTS):
    return torch.randn(TOKENS, 16, device=device) @ torch.randn(16, experts, device=device)


def by_map(x, chosen):
    """Count as a mask of tokens and experts, which is made from the scores."""
    return torch.zeros_like(x).int().scatter(1, chosen, 1).bool().sum(0)


def by_mask(x, chosen):
    """Count expert by expert, as with a loop over those that tokens go to."""
    mask = F.one_hot(chosen, EXPERTS).permute(2, 1, 0)
    hit = mask.sum((-1, -2)).gt(0).nonzero()
    return [len(x[torch.where(mask[expert[0]])[1]]) for expert in hit]


WAYS = {
    "bincount": lambda x, i: torch.bincount(i.flatten(), minlength=EXPERTS),
    "histc": lambda x, i: torch.histc(i, EXPERTS, 0, EXPERTS - 1),
    "one_hot": lambda x, i: F.one_hot(i, EXPERTS).sum((0, 1)),
    "scatter_add": lambda x, i: torch.zeros(EXPERTS, device=x.device).scatter_add_(
        0, i.flatten(), torch.ones_like(i.flatten(), dtype=torch.float32)
    ).long(),
    "scatter_add of integers": lambda x, i: i.new_zeros(EXPERTS).scatter_add_(
        0, i.flatten(), torch.ones_like(i.flatten())
    ),
    "unique": lambda x, i: i.unique(return_counts=True)[1],
    "sort": lambda x, i: i.flatten().sort()[0].bincount(),
    "comparison": lambda x, i: [(i == expert).sum().item() for expert in range(EXPERTS)],
    "map": by_map,
    "mask": by_mask,
    "rows": lambda x, i: [len(x[(i == e).any(1)]) for e in range(EXPERTS)],
    "masked_select": lambda x, i: [
        len(x[:, 0].masked_select((i == e).any(1))) for e in range(EXPERTS)
    ],
    "repeat_interleave": lambda x, i: [
        len(torch.arange(EXPERTS, device=x.device).repeat_interleave(i.flatten().bincount())
            .eq(e).nonzero()) for e in range(EXPERTS)
    ],
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_counts_have_values_however_a_router_counts(way):
    shares = [3, *[1.8] * 5]
    (device,) = sim.configure(1, numerics=False, routing=shares)
    x = scores(device)
    _, chosen = x.softmax(-1).topk(EACH, -1)
    found = WAYS[way](x, chosen)
    assert (found if isinstance(found, list) else found.tolist()) == COUNTS
    (device,) = sim.configure(1)  # the same ways, with values
    x = scores(device)
    _, chosen = x.softmax(-1).topk(EACH, -1)
    found = WAYS[way](x, chosen)
    expected = torch.bincount(chosen.flatten(), minlength=EXPERTS).tolist()
    assert (found if isinstance(found, list) else found.tolist()) == expected


@pytest.mark.parametrize("way", WAYS)
def test_counting_takes_as_long_as_with_values(way):
    """The scores are such that each expert gets as many tokens: nothing else may differ."""
    times = []
    for numerics in (True, False):
        (device,) = sim.configure(1, numerics=numerics)
        even = torch.eye(EXPERTS).repeat(TOKENS // EXPERTS, 1)
        x = (even + 0.5 * even.roll(1, 1)).to(device)
        _, chosen = x.topk(EACH, -1)
        WAYS[way](x, chosen)
        sim.synchronize()
        times.append(sim.now())
    assert times[0] == pytest.approx(times[1], rel=1e-9)


def test_other_choices_among_scores():
    (device,) = sim.configure(1, numerics=False, routing="3,2,1")
    x = scores(device, 3)
    for chosen in (x.argmax(-1), x.max(1)[1], x.view(20, 30, 3).topk(1)[1].flatten(),
                   x.t().argmax(0), x.topk(1, dim=-1, sorted=False).indices.view(-1)):  # fmt: skip
        assert torch.bincount(chosen).tolist() == [300, 200, 100]
    columns = x.t().topk(2, 0)[1]
    assert columns.shape == (2, TOKENS)
    assert torch.bincount(columns.flatten()).tolist() == [600, 400, 200]


def test_a_prediction_is_no_routing_unless_it_is_said_to_be():
    (device,) = sim.configure(1, numerics=False)
    x = scores(device, 3)
    with pytest.raises(RuntimeError, match=r"bincount needs values.* the indices of topk"):
        torch.bincount(x.argmax(-1))
    for large in (torch.randn(2, MOST_EXPERTS + 1, device=device), x.flatten()):  # words; one row
        with pytest.raises(RuntimeError, match="shapes only"):
            large.topk(2)[1].unique()


def test_scores_and_what_is_weighted_by_them_have_no_values():
    (device,) = sim.configure(1, numerics=False)
    x = scores(device)
    best, chosen = x.topk(EACH)
    for unknown in (best, x.gather(1, chosen), torch.bincount(chosen.flatten(), x[:, :2].flatten()),
                    torch.zeros_like(x).scatter(1, chosen, best)):  # fmt: skip
        assert unknown.cpu().isnan().all()
    assert len(torch.bincount(chosen.flatten(), x[:, :2].flatten())) == EXPERTS


def test_a_tensor_that_is_written_to_is_not_taken_for_zeros():
    (device,) = sim.configure(1, numerics=False)
    x = scores(device)
    chosen = x.topk(1)[1]
    for write in (
        lambda z: z.add_(x),
        lambda z: z[0].copy_(x[0]),
        lambda z: z.view(-1)[:5].uniform_(),
        lambda z: z.copy_(torch.ones(TOKENS, EXPERTS)),
    ):
        z = torch.zeros_like(x)
        write(z)
        with pytest.raises(RuntimeError, match="shapes only"):
            z.int().scatter(1, chosen, 1).nonzero()


UNKNOWN = torch.iinfo(torch.int64).min  # the mark for missing values


def write_an_element(counts, unknown):
    counts[0] = unknown


def write_a_part(counts, unknown):
    counts[:1].add_(unknown)


def write_the_whole(counts, unknown):
    counts.copy_(unknown.expand(4))


@pytest.mark.parametrize("write", [write_an_element, write_a_part, write_the_whole])
def test_unknown_numbers_are_not_old_ones_where_views_see_them(write):
    (device,) = sim.configure(1, numerics=False)
    counts = torch.zeros(4, dtype=torch.int64, device=device)
    view = counts[:1]
    write(counts, (scores(device) > 0).sum())
    assert view.tolist() == [UNKNOWN]


def test_what_views_do_to_equal_numbers_is_noted():
    """Large tensors of equal numbers, of which only that number is known."""
    (device,) = sim.configure(1, numerics=False)
    few = torch.arange(4, device=device)

    def equal(*shape, **how):
        return torch.zeros(*shape, device=device, **how)

    bits = (equal(100_000).add_(1)).view(torch.int32)
    assert (bits[:4] + few).tolist() == 4 * [torch.iinfo(torch.int64).min]
    repeated = equal(100_000, dtype=torch.int64)
    repeated[:1].expand(100_000).fill_(5)
    assert (repeated[:4] + few).tolist() == 4 * [UNKNOWN]
    changed = equal(10, 20_000, dtype=torch.int64)
    part = changed[0, :4]
    part += few
    changed.fill_(7)
    assert part.tolist() != few.tolist()


def test_a_rank_without_tokens_chooses_no_expert():
    (device,) = sim.configure(1, numerics=False)
    assert torch.empty(0, 8, device=device).topk(2)[1].tolist() == []


def test_a_machine_says_once_that_choices_are_made_up():
    (device,) = sim.configure(1, numerics=False)
    with pytest.warns(UserWarning, match=r"test_routing.py:\d+: the indices of topk are made up"):
        scores(device).topk(2)
    scores(device).topk(2)  # an error, if it were said again
    (device,) = sim.configure(1, numerics=False, routing="balanced")
    scores(device).topk(2)

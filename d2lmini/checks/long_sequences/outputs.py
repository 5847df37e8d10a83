"""The checker of an output that is put together from the parts of all ranks."""

import torch

from d2lmini.checks.shared.ranks import differ, draw, on_ranks
from d2lmini.checks.shared.results import tensor
from d2lmini.checks.shared.solution import checker

PLACES = {
    "in zigzag order": [[0, 1, 6, 7], [2, 3, 4, 5]],
    "in stripes": [[0, 3, 6], [1, 4, 7], [2, 5, 8]],
    "in no order": [[5, 0, 3], [7, 2, 8], [1, 6, 4]],
    "of one rank": [[2, 0, 1]],
}  # by order of the tokens: those of each rank


@checker("whole_again(part, places)")
def check_whole_again(whole_again):
    """Check that the output of a whole sequence is put together in order.

    Parameters
    ----------
    whole_again : callable
        ``whole_again(part, places)``, called on every rank with its part of the output, of shape
        ``(batch, heads, tokens, size)``, and the places of these tokens in the sequence;
        returning the output of the whole sequence.

    Raises
    ------
    AssertionError
        If a rank returns something else, or the tokens in another order.
    """
    for order, places in PLACES.items():
        where = f"tokens {order}"
        whole = draw(1, 2, torch.tensor(places).numel(), 3)
        given = whole_again.at(where)

        def run(rank, device, given=given, whole=whole, places=places):
            own = torch.tensor(places[rank])
            return given(whole[:, :, own].to(device), own.to(device))

        for rank, got in enumerate(on_ranks(given, run, len(places))[0]):
            got = tensor(got, f"{where}: what rank {rank} returns", whole.shape)
            if differ(got, whole):
                raise AssertionError(f"{where}: {_explain(got, whole, places, rank)}")
    print("whole_again: passed")


def _explain(got, whole, places, rank):
    every = torch.tensor(places).flatten()
    joined = whole[:, :, every]
    if not differ(got, joined):
        return "the tokens stand in the order of the ranks; put each at its place"
    if not differ(got, joined[:, :, every]):
        return (
            "`places` says where a token belongs, not where it is: write to whole[:, :, places], "
            "do not read from there"
        )
    elsewhere = torch.ones(whole.shape[2], dtype=torch.bool)
    elsewhere[places[rank]] = False
    if not differ(got[:, :, ~elsewhere], whole[:, :, ~elsewhere]):
        return f"rank {rank} has its own tokens right, and not those of other ranks"
    return f"rank {rank} does not return the output of the whole sequence"

"""The checker of a mask of one step of the ring."""

import torch

from d2lmini.checks.shared.results import tensor
from d2lmini.checks.shared.solution import checker

POSITIONS = {
    "in a row": [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]],
    "in zigzag order": [[0, 1, 10, 11], [2, 3, 8, 9], [4, 5, 6, 7]],
    "in stripes": [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]],
    "on uneven shards": [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]],
}  # by order of the tokens: those of each rank


@checker("mask(queries, keys)")
def check_mask(mask):
    """Check which keys the queries of a rank see in one step of the ring.

    Parameters
    ----------
    mask : callable
        ``mask(queries, keys)``, of the positions of the queries and of the keys in the whole
        sequence; returning a tensor of bools, one row for each query.

    Raises
    ------
    AssertionError
        If a query sees a later key, or does not see its own or an earlier one.

    Examples
    --------
    >>> check_mask(lambda queries, keys: queries[:, None] >= keys)
    mask: passed
    """
    for order, ranks in POSITIONS.items():
        for rank, queries in enumerate(ranks):
            for source, keys in enumerate(ranks):
                where = f"tokens {order}, queries of rank {rank}, keys of rank {source}"
                given = mask.at(where)(torch.tensor(queries), torch.tensor(keys))
                got = tensor(given, f"{where}: the mask", (len(queries), len(keys)))
                _compare(got, queries, keys, where)
    print("mask: passed")


def _compare(got, queries, keys, where):
    if got.dtype is not torch.bool:
        raise AssertionError(f"{where}: the mask must be of bools, not of {got.dtype}")
    in_shard = torch.ones(len(queries), len(keys), dtype=torch.bool).tril()
    hint = ". Compare positions in the whole sequence, not places in the shard"
    hint = hint if torch.equal(got.cpu(), in_shard) else ""
    for i, query in enumerate(queries):
        for j, key in enumerate(keys):
            if got[i, j] and key > query:
                raise AssertionError(
                    f"{where}: the query at position {query} sees the later key at {key}{hint}"
                )
            if not got[i, j] and key <= query:
                what = "its own key" if key == query else f"the earlier key at {key}"
                raise AssertionError(
                    f"{where}: the query at position {query} does not see {what}{hint}"
                )

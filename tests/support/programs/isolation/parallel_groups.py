"""Groups and ranks in globals of a module, set once: as large training programs keep them."""

import torch.distributed as dist

_TENSOR_GROUP = None
_DATA_GROUP = None
_DATA_RANK = None


def initialize(tensor_size):
    """Make the groups of a grid; keep those that this rank is in."""
    global _TENSOR_GROUP, _DATA_GROUP, _DATA_RANK
    assert _TENSOR_GROUP is None, "the groups are there"
    world, rank = dist.get_world_size(), dist.get_rank()
    for first in range(0, world, tensor_size):
        ranks = range(first, first + tensor_size)
        group = dist.new_group([*ranks])
        if rank in ranks:
            _TENSOR_GROUP = group
    for first in range(tensor_size):
        ranks = range(first, world, tensor_size)
        group = dist.new_group([*ranks])
        if rank in ranks:
            _DATA_GROUP, _DATA_RANK = group, [*ranks].index(rank)


def tensor_group():
    """Return the group of this rank's row."""
    assert _TENSOR_GROUP is not None, "call initialize() first"
    return _TENSOR_GROUP


def data_group():
    """Return the group of this rank's column."""
    return _DATA_GROUP


def data_rank():
    """Return the number of this rank in its column."""
    return _DATA_RANK

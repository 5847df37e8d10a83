"""The process groups of a grid of ranks, kept in this module's variables.

Libraries for several kinds of parallelism do this: each process imports the module, and finds its
own place there.
"""

import torch.distributed as dist

tp_group = pp_group = dp_group = None
tp_size = pp_size = dp_size = 1
tp_rank = pp_rank = dp_rank = 0


def build(tp, pp, dp):
    """Make the groups of a grid of ``dp`` times ``pp`` times ``tp`` ranks."""
    global tp_group, pp_group, dp_group, tp_size, pp_size, dp_size, tp_rank, pp_rank, dp_rank
    tp_size, pp_size, dp_size = tp, pp, dp
    rest, tp_rank = divmod(dist.get_rank(), tp)
    dp_rank, pp_rank = divmod(rest, pp)
    tp_group, _ = dist.new_subgroups_by_enumeration(
        [[(d * pp + p) * tp + t for t in range(tp)] for d in range(dp) for p in range(pp)]
    )
    pp_group, _ = dist.new_subgroups_by_enumeration(
        [[(d * pp + p) * tp + t for p in range(pp)] for d in range(dp) for t in range(tp)]
    )
    dp_group, _ = dist.new_subgroups_by_enumeration(
        [[(d * pp + p) * tp + t for d in range(dp)] for p in range(pp) for t in range(tp)]
    )


def neighbour(step):
    """Return the global rank that is `step` pipeline stages away, or None."""
    place = pp_rank + step
    return dist.get_rank() + step * tp_size if 0 <= place < pp_size else None

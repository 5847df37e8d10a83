"""Sharded tensors that some ranks save and others do not: a file without the others' shards."""

import functools
import warnings

from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_leaves

from simgpu import user_frame
from simgpu.backend.pytorch.replacements import find
from simgpu.ranks.process.threads import running_rank

_SAVE = "torch:save", "torch.serialization:save"


class ShardedSaves:
    """What ranks have saved by `torch.save`, inside a ``with`` block.

    On real GPUs such a program runs, too, so a warning names it, when the ranks have ended.
    """

    def __init__(self):
        self._saved = {}  # the ranks that hold the shards -> rank: line

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for members, lines in self._saved.items() if kind is None else ():
            missing = [rank for rank in members if rank not in lines]
            if missing:
                rank, line = next(iter(lines.items()))
                warnings.warn(
                    f"rank {rank} has saved sharded tensors ({line}) that rank {missing[0]} has "
                    "not: the file holds the shards of one rank only. Gather them on all ranks "
                    "before, by get_model_state_dict with full_state_dict=True, or let all ranks "
                    "call torch.distributed.checkpoint.save",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def replacements(self) -> dict:
        """Return the replacements of `torch.save`."""
        save = find(_SAVE[0])

        @functools.wraps(save)
        def noted(obj, *args, **kwargs):
            rank = running_rank()
            leaves = () if rank is None else tree_leaves(obj)
            for leaf in leaves:
                if isinstance(leaf, DTensor) and not all(p.is_replicate() for p in leaf.placements):
                    members = tuple(leaf.device_mesh.mesh.flatten().tolist())
                    self._saved.setdefault(members, {})[rank.number] = user_frame.line()
                    break
            return save(obj, *args, **kwargs)

        return dict.fromkeys(_SAVE, noted)

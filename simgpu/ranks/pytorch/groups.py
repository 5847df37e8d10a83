"""Groups as ranks make them: bound to a device or not, and by all ranks in one order.

PyTorch pairs groups by the number of the call.

Every rank of the job has to call `new_group` for every group, in the same order, also for those
that it is not in. Otherwise NCCL's communicators mix up ranks of different groups, and hang. A last
group that its members alone make hangs only if ``init_process_group`` was given a device.
"""

import functools

import torch.distributed as dist

from simgpu import user_frame
from simgpu.backend.pytorch.replacements import exists, find
from simgpu.clock import current
from simgpu.ranks.communication.process_group import SimProcessGroup
from simgpu.ranks.process import describe_ranks
from simgpu.ranks.process.scheduler import RanksError
from simgpu.ranks.process.torch_internals import C10D

_NEW_GROUP = f"{C10D}:_new_group_with_tag"
_HELPER = f"{C10D}:_new_process_group_helper"
_RECORD = f"{C10D}:_maybe_attach_flight_recorder"  # since 2.15
_SPLIT = [f"{m}:split_group" for m in (C10D, "torch.distributed", "torch.distributed.device_mesh")]


def replacements() -> dict:
    """Return the replacements of PyTorch's names while ranks run."""
    return {
        _NEW_GROUP: _check_order(find(_NEW_GROUP)),
        _HELPER: _bind(find(_HELPER)),
        **dict.fromkeys(_SPLIT, _make_split(find(_SPLIT[0]))),
        **({_RECORD: _record_real_groups(find(_RECORD))} if exists(_RECORD) else {}),
    }


def _record_real_groups(attach):
    """Leave simulated groups to `simgpu`: PyTorch's flight recorder asks for a C++ backend."""

    @functools.wraps(attach)
    def attach_to_real(pg, *args, **kwargs):
        if not isinstance(pg, SimProcessGroup):
            attach(pg, *args, **kwargs)

    return attach_to_real


def _make_split(real):
    """Return ``split_group`` that makes the rank's part of a group, which no other rank needs."""

    @functools.wraps(real)
    def split(
        parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None, **_
    ):
        parent = parent_pg or dist.group.WORLD
        if not split_ranks or getattr(parent, "bound_device_id", None) is None:
            return real(parent_pg, split_ranks)  # raises PyTorch's error
        parent.splits += 1  # as often on all its ranks, whatever other groups they are in
        members, me = dist.get_process_group_ranks(parent), dist.get_rank()
        for part in split_ranks:
            ranks = [members[i] for i in sorted(part)]
            if me in ranks:
                return _make_part(parent, ranks, me, timeout, group_desc)
        return None

    return split


def _make_part(parent, ranks, me, timeout, desc):
    groups = find(f"{C10D}:_world")
    backend, store = groups.pg_map[parent]
    name = f"{parent.group_name}:split:{parent.splits}"
    group, _ = find(_HELPER)(
        len(ranks), ranks.index(me), ranks, backend, store, group_name=name,
        timeout=timeout or find(f"{C10D}:_get_default_timeout")(backend),
        device_id=parent.bound_device_id, group_desc=desc or name,
    )  # fmt: skip
    groups.pg_group_ranks[group] = {rank: i for i, rank in enumerate(ranks)}
    return group


def _bind(helper):
    """Record ``device_id=`` in the group, as PyTorch does in groups of its own class."""

    @functools.wraps(helper)
    def make(*args, device_id=None, **kwargs):
        group, store = helper(*args, device_id=device_id, **kwargs)
        if device_id is not None and isinstance(group, SimProcessGroup):
            group.bound_device_id = device_id
        return group, store

    return make


def _check_order(new_group):
    made = []  # members, rank and line of the first call with each number
    counts = {}  # rank -> calls

    @functools.wraps(new_group)
    def checked(ranks=None, *args, **kwargs):
        if ranks is not None and not len(ranks):
            raise ValueError(
                "new_group([]) has no members; name at least one rank, or leave it out"
            )
        if not kwargs.get("use_local_synchronization"):
            _compare(ranks)
        return new_group(ranks, *args, **kwargs)

    def _compare(ranks):
        rank = current.ranks.rank
        number = counts[rank.number] = counts.get(rank.number, -1) + 1
        members = sorted(range(rank.world_size) if ranks is None else ranks)
        if number == len(made):
            made.append((members, rank.number, user_frame.line()))
        first, other, line = made[number]
        if members == first:
            _await_all(number, members)
        else:
            raise RanksError(
                f"rank {rank.number} makes a group of the ranks {members} ({user_frame.line()}) "
                f"where rank {other} made one of {first} ({line}); all ranks must make all groups, "
                "in the same order, including those that they are not in"
            )

    def _await_all(number, members):
        """Wait as NCCL does: it splits the communicator of all ranks if that is bound to GPUs."""
        if dist.group.WORLD is None or dist.group.WORLD.bound_device_id is None:
            return
        scheduler, line = current.ranks.scheduler, user_frame.line()

        def missing():
            return [rank.number for rank in scheduler.ranks if counts.get(rank.number, -1) < number]

        scheduler.wait(
            lambda: not missing(),
            lambda: (
                f"waits in new_group({members}) ({line}) for {describe_ranks.subject(missing())}: "
                "with device_id=, all ranks must make all groups, also those that they are not in; "
                "or give use_local_synchronization=True"
            ),
        )

    return checked

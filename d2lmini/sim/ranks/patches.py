"""What PyTorch's distributed package needs to be told while ranks of simulated GPUs run."""

import functools

from d2lmini.sim.naming import NAME, SLOT
from d2lmini.sim.ranks import job, private
from d2lmini.sim.ranks.store import RankStore

_INIT = "torch.distributed:init_process_group", f"{private.C10D}:init_process_group"
_HANDLERS = "torch.distributed.rendezvous:_rendezvous_handlers"


class Patches:
    """PyTorch's names that stand for something else inside a ``with`` block."""

    def __init__(self):
        init = private.find(_INIT[0])
        self._new = dict.fromkeys(_INIT, _checked(init))
        self._new[_HANDLERS] = dict.fromkeys(private.find(_HANDLERS), _meet_here)

    def __enter__(self):
        self._old = {name: private.find(name) for name in self._new}
        for name, value in self._new.items():
            private.replace(name, value)
        private.find("torch._C._distributed_c10d:_set_thread_isolation_mode")(True)
        return self

    def __exit__(self, *_):
        private.find("torch._C._distributed_c10d:_set_thread_isolation_mode")(False)
        for name, value in self._old.items():
            private.replace(name, value)


def _checked(init):
    """Let ``init_process_group`` find the simulated group, and refuse others by name."""

    @functools.wraps(init)
    def checked(backend=None, *args, **kwargs):
        wanted = NAME if backend is None else str(backend).lower()
        if wanted.rpartition(":")[2] not in (NAME, SLOT):
            raise ValueError(
                f"init_process_group(backend={backend!r}) in a rank on simulated GPUs: leave the "
                "backend out, and the same program runs here, on NCCL and on gloo"
            )
        return init(NAME, *args, **kwargs)

    return checked


def _meet_here(url, timeout=None, **kwargs):
    """Find the other ranks, whatever address the program gives: they are in this process."""
    rank = job.active.rank
    store = RankStore(job.active.store_values, job.active.baton)
    yield store, rank.number, rank.world_size

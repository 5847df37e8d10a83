"""Patches of PyTorch's distributed package while ranks run."""

import functools
import types
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlsplit

import torch

from simgpu.backend.pytorch import accelerator
from simgpu.backend.pytorch.replacements import Replacements, find
from simgpu.clock import current
from simgpu.clock.hooks import hooks
from simgpu.naming import NAME, SLOT, device_type, is_accelerator
from simgpu.ranks.communication.process_group import SimProcessGroup
from simgpu.ranks.process import own_stores, signals, threads, torch_internals
from simgpu.ranks.process.modules import operators
from simgpu.ranks.process.store import RankStore
from simgpu.ranks.pytorch import (
    async_save,
    batches,
    flight_recorder,
    fsdp1,
    groups,
    pipelines,
    saving,
    silent_mistakes,
    sync_batch_norm,
    unsupported,
)
from simgpu.ranks.pytorch.dtensors import chunks, dtensor, sharding
from simgpu.ranks.pytorch.profiler import patches as profiler

_INIT = "torch.distributed:init_process_group", f"{torch_internals.C10D}:init_process_group"
_HANDLERS = "torch.distributed.rendezvous:_rendezvous_handlers"
_HOOK_CHECK = "torch.nn.parallel:DistributedDataParallel._check_comm_hook"
_MEMBERSHIP = f"{torch_internals.C10D}:_rank_not_in_group"
_LOG_TIMES = "torch._C._distributed_c10d:Logger.set_runtime_stats_and_log"
_ISOLATE = "torch._C._distributed_c10d:_set_thread_isolation_mode"


class BackendError(ValueError):
    """A program asks for a backend of real GPUs or of the CPU."""


@contextmanager
def patched():
    """Patch PyTorch for ranks inside a ``with`` block."""
    with saving.ShardedSaves() as saves, Replacements() as scoped:
        if not is_accelerator():  # beside a real one, make them the accelerator of ranks only
            scoped.add(accelerator.replacements())
            scoped.add(as_accelerator())
        scoped.add(
            {
                **dict.fromkeys(_INIT, _simulated_only(find(_INIT[0]))),
                _HANDLERS: dict.fromkeys(find(_HANDLERS), _rendezvous),
                _HOOK_CHECK: _skip_nccl_check(find(_HOOK_CHECK)),
                _LOG_TIMES: lambda logger: None,  # supports CUDA and CPU only, else warns
                _MEMBERSHIP: _check_owner(find(_MEMBERSHIP)),
                **async_save.replacements(),
                **batches.replacements(),
                **chunks.replacements(),
                **dtensor.replacements(),
                **flight_recorder.replacements(),
                **fsdp1.replacements(),
                **groups.replacements(),
                **operators.replacements(),
                **own_stores.replacements(),
                **pipelines.replacements(),
                **profiler.replacements(),
                **saves.replacements(),
                **sharding.replacements(),
                **signals.replacements(),
                **silent_mistakes.replacements(),
                **sync_batch_norm.replacements(),
                **threads.replacements(),
                **unsupported.replacements(),
            }
        )
        find(_ISOLATE)(True)  # one C++ registry of groups per thread
        try:
            yield
        finally:
            find(_ISOLATE)(False)


def as_accelerator() -> dict:
    """Return the replacements that make simulated GPUs, as they are called now, the accelerator."""

    def get():
        return torch.device(device_type())

    return {f"torch._C:{name}": get for name in ("_accelerator_getAccelerator", "_get_accelerator")}


def _simulated_only(init):
    """Make ``init_process_group`` create the simulated backend, and refuse any other."""
    if hooks.accepts_all_backends:
        return init

    @functools.wraps(init)
    def checked(backend=None, *args, **kwargs):
        wanted = NAME if backend is None else str(backend).lower()
        if wanted.rpartition(":")[2] not in (NAME, SLOT):
            raise BackendError(
                f"init_process_group(backend={backend!r}) in a rank on simulated GPUs: leave the "
                "backend out; then the same program runs here, on NCCL and on gloo"
            )
        init(NAME, *args, **kwargs)
        torch.distributed.group.WORLD.has_device_id = kwargs.get("device_id") is not None

    return checked


def _rendezvous(url, timeout=None, **kwargs):
    """Return the store of the ranks, whatever the URL: all are in this process."""
    rank = current.ranks.rank
    _check_given(rank, dict(parse_qsl(urlsplit(url).query)))
    rank.store = RankStore(current.ranks.stores.default, current.ranks.scheduler)  # keeps it alive
    yield rank.store, rank.number, rank.world_size


def _check_given(rank, given):
    """Check the rank and the number of ranks that a program names itself."""
    own = {"rank": rank.number, "world_size": rank.world_size}
    wrong = [name for name in own if int(given.get(name, own[name])) not in (own[name], -1)]
    if wrong:
        said = ", ".join(f"{name}={given[name]}" for name in wrong)
        raise ValueError(
            f"init_process_group({said}) in rank {rank.number} of {rank.world_size}: give the "
            "number of the process, and that of all that were started, or leave both out"
        )


def _check_owner(is_no_member):
    """Check the owner of a group first: PyTorch calls this before it uses or logs a group."""

    def checked(group):
        if isinstance(group, SimProcessGroup):
            group.check_owner()
        return is_no_member(group)

    return checked


def _skip_nccl_check(check):
    """Check a DDP hook, but accept bf16 compression in a PyTorch built without NCCL."""

    def checked(self, hook):
        if getattr(hook, "__name__", "").startswith("bf16_compress"):
            code = hook.__code__, hook.__globals__, "hook", hook.__defaults__, hook.__closure__
            hook, annotations = types.FunctionType(*code), hook.__annotations__
            hook.__annotations__ = annotations
        return check(self, hook)

    return checked

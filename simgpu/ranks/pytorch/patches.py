"""What PyTorch's distributed package is told while ranks of simulated GPUs run."""

import functools
import types
from contextlib import contextmanager

import torch

from simgpu.backend.pytorch import accelerator
from simgpu.backend.pytorch.replacements import Replacements, find
from simgpu.naming import NAME, SLOT, device_type, is_accelerator
from simgpu.ranks.communication import world
from simgpu.ranks.communication.process_group import SimProcessGroup
from simgpu.ranks.process import torch_internals
from simgpu.ranks.process.store import RankStore
from simgpu.ranks.pytorch import dtensor, pipelines, profiling, unsupported

_INIT = "torch.distributed:init_process_group", f"{torch_internals.C10D}:init_process_group"
_HANDLERS = "torch.distributed.rendezvous:_rendezvous_handlers"
_HOOK_CHECK = "torch.nn.parallel:DistributedDataParallel._check_comm_hook"
_MEMBERSHIP = f"{torch_internals.C10D}:_rank_not_in_group"
_LOG_TIMES = "torch._C._distributed_c10d:Logger.set_runtime_stats_and_log"
_ISOLATE = "torch._C._distributed_c10d:_set_thread_isolation_mode"


class BackendError(ValueError):
    """A program names a backend of real GPUs or of the CPU."""


@contextmanager
def patched():
    """Tell PyTorch about ranks inside a ``with`` block."""
    with Replacements() as scoped:
        if not is_accelerator():  # beside a real one it is simulated GPUs for ranks alone
            scoped.add(accelerator.replacements())
            scoped.add(_accelerator())
        scoped.add(
            {
                **dict.fromkeys(_INIT, _checked(find(_INIT[0]))),
                _HANDLERS: dict.fromkeys(find(_HANDLERS), _meet_here),
                _HOOK_CHECK: _let_bf16_pass(find(_HOOK_CHECK)),
                _LOG_TIMES: lambda logger: None,  # of CUDA and CPU alone; others get a warning
                _MEMBERSHIP: _check_owner(find(_MEMBERSHIP)),
                **dtensor.replacements(),
                **pipelines.replacements(),
                **profiling.replacements(),
                **unsupported.replacements(),
            }
        )
        find(_ISOLATE)(True)  # C++'s list of groups: one for each thread
        try:
            yield
        finally:
            find(_ISOLATE)(False)


def _accelerator():
    """Return what names simulated GPUs as the accelerator."""

    def get():
        return torch.device(device_type())

    return {f"torch._C:{name}": get for name in ("_accelerator_getAccelerator", "_get_accelerator")}


def _checked(init):
    """Let ``init_process_group`` find the simulated group, and refuse others by name."""

    @functools.wraps(init)
    def checked(backend=None, *args, **kwargs):
        wanted = NAME if backend is None else str(backend).lower()
        if wanted.rpartition(":")[2] not in (NAME, SLOT):
            raise BackendError(
                f"init_process_group(backend={backend!r}) in a rank on simulated GPUs: leave the "
                "backend out, and the same program runs here, on NCCL and on gloo"
            )
        return init(NAME, *args, **kwargs)

    return checked


def _meet_here(url, timeout=None, **kwargs):
    """Find the other ranks, whatever address the program gives: they are in this process."""
    rank = world.active.rank
    rank.store = RankStore(world.active.store_values, world.active.scheduler)  # C++ keeps no Python
    yield rank.store, rank.number, rank.world_size


def _check_owner(is_no_member):
    """Refuse groups of other ranks where PyTorch, and what it logs of errors, asks first."""

    def checked(group):
        if isinstance(group, SimProcessGroup):
            group.check_owner()
        return is_no_member(group)

    return checked


def _let_bf16_pass(check):
    """Check a hook of DDP without the question whether this PyTorch was built with NCCL."""

    def checked(self, hook):
        if getattr(hook, "__name__", "").startswith("bf16_compress"):
            code = hook.__code__, hook.__globals__, "hook", hook.__defaults__, hook.__closure__
            hook, annotations = types.FunctionType(*code), hook.__annotations__
            hook.__annotations__ = annotations
        return check(self, hook)

    return checked

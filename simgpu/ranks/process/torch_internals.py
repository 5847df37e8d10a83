"""The private names of PyTorch that ranks depend on: an unstable API.

They are looked up at the first `spawn`, never at import: if PyTorch lacks one of them, `spawn`
raises an error, and the rest of the simulator still works.
"""

import copy
import functools

import torch

from simgpu.backend.pytorch.replacements import exists, owner_of

TESTED = "2.11 to 2.15"
C10D = "torch.distributed.distributed_c10d"
FSDP = "torch.distributed.fsdp._fully_shard"
FAKE_GROUP = "torch._C._distributed_c10d:FakeProcessGroup._create_internal"
NAMES = (
    "torch._C:_accelerator_getAccelerator",
    "torch._C:_get_accelerator",
    FAKE_GROUP,
    "torch._C._distributed_c10d:_set_thread_isolation_mode",
    "torch._C._distributed_c10d:Logger.set_runtime_stats_and_log",
    "torch.distributed:ProcessGroup._register_backend",
    "torch.nn.parallel:DistributedDataParallel._check_comm_hook",
    "torch.distributed.rendezvous:_rendezvous_handlers",
    f"{C10D}:_resolve_process_group",
    f"{C10D}:_rank_not_in_group",
    f"{C10D}:_check_p2p_op_list",
    f"{C10D}:_new_process_group_helper",
    f"{C10D}:_new_group_with_tag",
    f"{C10D}:_world.pg_names",
    "torch.distributed._functional_collectives:AsyncCollectiveTensor",
    "torch.distributed.tensor:DTensor._op_dispatcher",
    "torch.distributed.tensor._op_schema:_rebuild_tensor_from_dtensor_meta",
    f"{FSDP}._fsdp_init:_move_states_to_device",
    f"{FSDP}._fsdp_collectives:all_gather_copy_in_cuda",
    f"{FSDP}._fsdp_collectives:split_with_sizes_copy",
    f"{FSDP}._fsdp_collectives:chunk_cat",
    "torch.distributed.pipelining._backward:get_param_groups",
    "torch.ops._c10d_functional:wait_tensor",
    "torch.ops._dtensor:shard_dim_alltoall",
    "torch.cuda:_lazy_init",
    "torch.utils._device:DeviceContext.__init__",
    "torch.ops.fsdp:all_gather_copy_in",
)
# Rank-local module globals: the name, and the initial value on a rank (None: a copy).
GLOBALS = (
    (f"{C10D}:_world._default_pg", lambda: None),
    (f"{C10D}:_world._pg_coalesce_state", dict),
    (f"{C10D}:_world._comms", list),
    (f"{C10D}:_pg_map", dict),
    (f"{C10D}:_pg_names", dict),
    (f"{C10D}:_pg_group_ranks", dict),
    (f"{C10D}:_pg_backend_config", dict),
    (f"{C10D}:_group_count", int),
    (f"{C10D}:_tags_to_pg", dict),
    (f"{C10D}:_pg_to_tag", dict),
    (f"{C10D}:_backend", lambda: None),
    (f"{C10D}:_default_pg_init_method", lambda: None),
    ("torch.distributed.tensor._random:_rng_tracker", lambda: None),
    ("torch.distributed.tensor:DTensor._op_dispatcher._custom_op_handlers", None),
    ("torch.nn.functional:scaled_dot_product_attention", None),
    ("multiprocessing.context:_default_context._actual_context", lambda: None),
)
# Likewise, settings that a program may change; a rank starts from a copy. Some may be missing.
HOOKS = "torch.nn.modules.module:_global"
SWITCHES = (
    "torch.distributed.tensor._redistribute:_planner_cache",
    "torch.utils.checkpoint:_enable_checkpoint_early_stop",
    "torch.utils.checkpoint:_checkpoint_debug_enabled",
    "torch.utils.checkpoint:DefaultDeviceType._default_device_type",
    "torch.autograd.graph:_allow_mutation_on_saved_tensors_enabled",
    "torch.utils._device:CURRENT_DEVICE",
    "torch.distributed.fsdp._debug_utils:SimpleProfiler.profiling",
    "torch.distributed.fsdp._debug_utils:SimpleProfiler.results",
    "torch.optim.optimizer:_global_optimizer_pre_hooks",
    "torch.optim.optimizer:_global_optimizer_post_hooks",
    f"{HOOKS}_buffer_registration_hooks",
    f"{HOOKS}_module_registration_hooks",
    f"{HOOKS}_parameter_registration_hooks",
    f"{HOOKS}_backward_pre_hooks",
    f"{HOOKS}_backward_hooks",
    f"{HOOKS}_is_full_backward_hook",
    f"{HOOKS}_forward_pre_hooks",
    f"{HOOKS}_forward_hooks",
    f"{HOOKS}_forward_hooks_always_called",
    f"{HOOKS}_forward_hooks_with_kwargs",
)


def missing() -> list[str]:
    """Return the names that this PyTorch lacks."""
    return [name for name in (*NAMES, *(name for name, _ in GLOBALS)) if not exists(name)]


def set_device_guard() -> None:
    """Set in a thread that stays what `FakeTensorMode` sets in the first one that uses it.

    Where a PyTorch for CUDA finds no GPU, version 2.11 takes a guard that belongs to that thread:
    ranks that start when the thread has ended would read memory that is no longer there.
    """
    getattr(torch._C, "_ensureCUDADeviceGuardSet", lambda: None)()


def check() -> None:
    """Raise an error if this PyTorch lacks a name.

    Raises
    ------
    RuntimeError
        Names the first missing name, and a version that has it.
    """
    if absent := missing():
        raise RuntimeError(
            f"sim.spawn() needs private names that PyTorch {torch.__version__} lacks "
            f"({absent[0]}); install PyTorch {TESTED}; the rest of simgpu works with this one"
        )


def first_values() -> list:
    """Return the initial values of the `GLOBALS` and the `SWITCHES` on a rank."""
    return [
        first() if first is not None else _copy(getattr(owner, attribute))
        for owner, attribute, first in owners()
    ]


def _copy(value):
    return copy.copy(value) if isinstance(value, dict | set) else value


def get_globals() -> list:
    """Return the current values of the `GLOBALS` and the `SWITCHES`."""
    return [getattr(owner, attribute) for owner, attribute, _ in owners()]


def set_globals(values) -> None:
    """Set the `GLOBALS` and the `SWITCHES`."""
    for (owner, attribute, _), value in zip(owners(), values, strict=True):
        setattr(owner, attribute, value)


@functools.lru_cache(None)
def owners() -> list:
    """Return the owner, the attribute and the initial value of the `GLOBALS` and `SWITCHES`."""
    switches = [(name, None) for name in SWITCHES if exists(name)]
    return [(*owner_of(name), first) for name, first in (*GLOBALS, *switches)]


def kind_of_reduction(op):
    """Return the type of a reduction, such as ``ReduceOp.SUM``."""
    return getattr(op, "op", op)


def name_of_reduction(op) -> str:
    """Return the name of a reduction: ``sum``."""
    return str(kind_of_reduction(op)).rpartition(".")[2].lower()


def factor_of_reduction(op):
    """Return the factor of ``ReduceOp.PREMUL_SUM``."""
    return op.__getstate__()[1]

"""Checkpoints that are written while a job trains: `torch.distributed.checkpoint.async_save`."""

import functools
from concurrent.futures import Future

from torch.distributed.checkpoint.api import CheckpointException

from simgpu.backend.pytorch.replacements import exists, find
from simgpu.backend.tensor import SimTensor

_CHECKPOINT = "torch.distributed.checkpoint"
_OFFLOAD = f"{_CHECKPOINT}._state_dict_stager:StateDictStager._offload_tensor"
_EXECUTE = (
    f"{_CHECKPOINT}._async_thread_executor:_ThreadBasedAsyncCheckpointExecutor.execute_save",
    f"{_CHECKPOINT}._async_process_executor:_ProcessBasedAsyncCheckpointExecutor.execute_save",
)
_WRITE = f"{_CHECKPOINT}._async_thread_executor:save_wrapper"


def _copying(offload):
    """Wrap the copy of a tensor to the host: PyTorch's copies storages, which have no data here.

    Where PyTorch copies a storage once for all tensors that share it, each of them is copied. Of
    one without values only the time of the copy counts: nothing can change it any more.
    """

    @functools.wraps(offload)
    def copied(self, x, memo, non_blocking=False):
        if not isinstance(x, SimTensor):
            return offload(self, x, memo, non_blocking=non_blocking)
        if x._data.device.type == "meta":
            x._device.to_host(x.nbytes)
            staged = x.detach()
        else:
            staged = x.detach().to("cpu")
        memo[id(x)] = staged
        return staged

    return copied


def _at_once(execute):
    """Wrap what starts a thread or process that writes: the rank writes before it goes on.

    Files take no simulated time, so the step is as long as beside a writer, but for the few
    messages by which ranks agree on the plan.
    """
    write = find(_WRITE)

    @functools.wraps(execute)
    def written(self, staged, **options):
        future = Future()
        try:
            future.set_result(write(staged, **options))
        except (Exception, CheckpointException) as error:  # met where the result is asked for
            future.set_exception(error)
        return future

    return written


def replacements() -> dict:
    """Return the replacements of PyTorch's names while ranks run."""
    wrappers = {_OFFLOAD: _copying, **dict.fromkeys(_EXECUTE, _at_once)}
    return {name: wrap(find(name)) for name, wrap in wrappers.items() if exists(name)}

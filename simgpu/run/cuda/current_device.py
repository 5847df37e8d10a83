"""A forgotten `torch.cuda.set_device`: real ranks would share GPU 0.

In a real process the current device is 0 until the program sets another one. Here it is the rank's
own from the start, so a program that never sets it would work. A program that asks for its number
gets 0, and is refused as by NCCL when it communicates a tensor from there; so is a rank that has
put a tensor on ``cuda`` without a number, when it communicates. A program that says
`torch.accelerator` is not: notebooks take the rank's device from there.
"""

import os
import sys
import weakref
from functools import partial

from simgpu import backend, saving, user_frame
from simgpu.clock import current
from simgpu.clock.hooks import HOOKS
from simgpu.device_api import devices
from simgpu.naming import split
from simgpu.ranks.process.scheduler import RanksError
from simgpu.ranks.process.threads import running_rank

_TENSORS = (  # modules that make tensors; others ask for properties of a device
    os.path.dirname(backend.__file__) + os.sep,
    saving.__file__,
)
_unset: dict = weakref.WeakKeyDictionary()  # rank -> line that put a tensor on the device 0
_bound: set = weakref.WeakSet()  # ranks that have set their current device
_named: set = set()  # lines that put a tensor on the GPU of another rank
_seen: set = weakref.WeakSet()  # ranks whose CUDA_VISIBLE_DEVICES has been read


def record_use(index) -> None:
    """Record that a program names ``cuda:{index}``; None stands for the current device."""
    rank = running_rank()
    if rank is None:
        return
    _apply_visible_devices(rank)
    if index is None and rank.local and rank not in _bound and rank not in _unset:
        _unset[rank] = user_frame.line()


def _apply_visible_devices(rank):
    """Name the rank's device by ``CUDA_VISIBLE_DEVICES``, which CUDA reads when it starts."""
    if rank in _seen:
        return
    _seen.add(rank)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    own = os.environ.get("LOCAL_RANK", "0")
    if own in visible:
        rank.local = visible.index(own)
        current.ranks.machine.devices[rank.index].rename(rank.local)


def check(rank) -> None:
    """Refuse to let a rank communicate a tensor that would be on GPU 0.

    Raises
    ------
    RanksError
        Names the line that put the first tensor there, and what to call before.
    """
    _refuse_unset(rank, f" and communicates ({user_frame.line()})", ", and NCCL would fail")


def check_end() -> None:
    """Refuse to let a rank end that has put tensors on GPU 0 without communicating any.

    Raises
    ------
    RanksError
        As `check` does.
    """
    rank = running_rank()
    if rank is not None:
        _refuse_unset(rank)


def _refuse_unset(rank, and_then="", so=""):
    line = _unset.get(rank)
    if line is not None and rank not in _bound:
        raise RanksError(
            f"rank {rank.number} puts a tensor on 'cuda' ({line}){and_then}, but has never called "
            "torch.cuda.set_device: on real GPUs all ranks of a node would share cuda:0"
            f"{so}. Before line {line}, call torch.cuda.set_device(int(os.environ['LOCAL_RANK']))"
        )


def _bind():
    rank = running_rank()
    if rank is not None:
        _bound.add(rank)


def current_device() -> int:
    """`torch.cuda.current_device`: 0 in a program that has not set another one.

    PyTorch itself asks for the device where the rank's tensors are.
    """
    rank = running_rank()
    if rank is None or not user_frame.is_user_code(sys._getframe(1).f_code.co_filename):
        return current.current_device()
    _apply_visible_devices(rank)
    return current.current_device() if rank in _bound else 0


def set_device(device) -> None:
    """`torch.cuda.set_device`."""
    if (isinstance(device, int) and device >= 0) or split_number(device) is not None:
        _bind()
    devices.set_device(device)


def split_number(device):
    """Return the number of a device, if it is a name or a `torch.device` with one."""
    return None if isinstance(device, int) else split(device)[1]


def set_device_index(device) -> None:
    """`torch.accelerator.set_device_index`."""
    _bind()
    current.set_device(device)


class DeviceContext(devices.DeviceContext):
    """``with torch.cuda.device(i):`` sets the device inside the block."""

    def __enter__(self):
        rank = running_rank()
        self._binds = rank is not None and self.idx >= 0 and rank not in _bound
        if self._binds:
            _bound.add(rank)
        super().__enter__()

    def __exit__(self, *error):
        if self._binds:
            _bound.discard(running_rank())
        return super().__exit__(*error)


def is_initialized() -> bool:
    """`torch.cuda.is_initialized`: whether the program has used CUDA, or set its device.

    `init_device_mesh` sets the device of a program that has done neither.
    """
    rank = running_rank()
    return rank is None or rank in _seen or rank in _bound


def _name_other_device(say, rank, index):
    """Say that a rank puts a tensor on a GPU that is not its own, once for each line."""
    _apply_visible_devices(rank)
    if index in (rank.local, rank.index) or not user_frame.is_called_from(_TENSORS):
        return
    line = user_frame.line()
    if line not in _named:
        _named.add(line)
        say(
            f"note: rank {rank.number} puts a tensor on cuda:{index} ({line}), the GPU of another "
            "rank: if every rank does so, that GPU runs out of memory first. When loading, give "
            "map_location='cpu', or 'cuda:' and LOCAL_RANK"
        )


def replacements(say=print) -> dict:
    """Return the replacements; `say` prints what the launcher says."""
    _named.clear()
    return {
        "torch.cuda:is_initialized": is_initialized,
        f"{HOOKS}.renumber": partial(_name_other_device, say),
        "torch.cuda:current_device": current_device,
        "torch.cuda:set_device": set_device,
        "torch.cuda:device": DeviceContext,
        "torch._C:_accelerator_setDeviceIndex": set_device_index,
    }

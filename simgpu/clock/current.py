"""The machine in use, and how its devices are looked up."""

import os
from types import SimpleNamespace

from simgpu.clock.hooks import hooks
from simgpu.naming import CUDA, TYPES, spelling, split

DEFAULT_SEED = 67280421310721  # PyTorch's default, without a call of torch.manual_seed
state = SimpleNamespace(machine=None, seed=DEFAULT_SEED)
ranks = None  # the `World` of the ranks that share the machine, if any
_FORKED = (
    "simulated GPUs belong to the process that configured them, and this process was forked from "
    "it; use host tensors here (in a DataLoader's workers: return host tensors, and move batches "
    "in the main process), or call simgpu.configure(k) here"
)
_forked: list = []  # the parent's machine, in a forked process


def _drop_inherited_machine():
    """Drop the parent's machine in a forked process, where its clock would be a second one."""
    machine = state.machine
    if machine is not None:
        state.machine, machine.alive = None, False
        _forked[:] = [machine]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_inherited_machine)


def current_machine():
    """Return the machine in use.

    Raises
    ------
    RuntimeError
        If `configure` has not been called.
    """
    machine = state.machine
    if machine is None and _forked:
        raise RuntimeError(_FORKED)
    if machine is None:
        raise RuntimeError("there are no simulated GPUs yet; call simgpu.configure(k)")
    return machine


def machine_in_use():
    """Return an object that identifies the machine in use; each `configure` makes a new one.

    Returns
    -------
    object or None
        Compare it with ``is``; None before `configure`.

    Examples
    --------
    >>> import simgpu as sim
    >>> devices, machine = sim.configure(2), sim.machine_in_use()
    >>> sim.synchronize()
    >>> sim.machine_in_use() is machine
    True
    >>> devices = sim.configure(2)
    >>> sim.machine_in_use() is machine
    False
    """
    return state.machine


def check_alive(machine, what: str) -> None:
    """Raise an error if `machine` is not in use; `what` names the object that belongs to it."""
    if machine.alive:
        return
    if machine in _forked:
        raise RuntimeError(_FORKED)
    if machine.set_aside:
        raise RuntimeError(
            f"{what} belongs to a simulated machine that is set aside while a `with sim.machine()` "
            "block is open; use it after that block, or copy tensors to the host before it"
        )
    raise RuntimeError(
        f"{what} belongs to a simulated machine that a later sim.configure() (or gpus()) "
        "replaced; create it again after that call, or copy tensors to the host before it"
    )


def find_device(device=None):
    """Return the simulated device for a name or a number, or the current one for None.

    Raises
    ------
    ValueError
        If it is not a simulated GPU, or no simulated GPU has that number.
    """
    machine = current_machine()
    if device is None:
        index = machine.current_index()
    elif isinstance(device, int) and not isinstance(device, bool):
        index = device
    else:
        kind, index = split(device)
        in_cpp = kind == "meta" and index is not None  # in C++, sim:i is named meta:i
        if kind not in TYPES and not in_cpp:
            raise ValueError(f"{device} is not a simulated GPU; give one like '{spelling.name}:0'")
        if kind == CUDA and (index is None or spelling.name is not CUDA):
            hooks.on_cuda(index)
        index = machine.current_index() if index is None else index
    if ranks is not None:
        index = ranks.index_of(index)
    if not 0 <= index < len(machine.devices):
        raise ValueError(
            f"there is no {spelling.name}:{index}: this machine has {len(machine.devices)} "
            f"simulated GPU(s), {spelling.name}:0 to {spelling.name}:{len(machine.devices) - 1}; "
            f"{_how_to_have(index + 1)} to have it"
        )
    return machine.devices[index]


def _how_to_have(count):
    """Return the call or option, in words, that makes a machine of `count` devices."""
    if hooks.on_cuda is not None:
        if ranks is not None and count <= int(os.environ.get("LOCAL_WORLD_SIZE", 0)):
            return "name its rank in simgpu run --ranks"
        option = "gpus" if ranks is None else "nproc"
        return f"give simgpu run --{option}-per-node {count}"
    return f"call configure({count})" if ranks is None else f"call spawn(..., nprocs={count})"


def is_cpp_device(device) -> bool:
    """Return whether a meta device in PyTorch's C++ code stands for a simulated GPU."""
    return device.index is not None and device.index < device_count()


def device_count() -> int:
    """Return the number of simulated GPUs; 0 before `configure`."""
    machine = state.machine
    return 0 if machine is None else len(machine.devices)


def current_device() -> int:
    """Return the number of the device that ``"sim"`` without a number refers to."""
    machine = state.machine
    return 0 if machine is None else find_device().torch_device.index


def own_devices() -> list:
    """Return the devices of the calling program: all of them, or a rank's only one."""
    machine = current_machine()
    return machine.devices if ranks is None else [machine.devices[ranks.own_index()]]


def refuse_in_a_rank(what: str, instead: str) -> None:
    """Raise an error while several ranks share the machine."""
    if ranks is not None:
        raise RuntimeError(
            f"{what} is not allowed in a rank of sim.spawn(): the ranks share a machine; {instead}"
        )


def set_device(device) -> None:
    """Make `device` the one that ``"sim"`` without a number refers to in this thread."""
    device = find_device(device)
    device.machine.set_current_index(device.index)


def is_numeric() -> bool:
    """Return whether the machine computes values: not after ``configure(..., numerics=False)``."""
    return current_machine().numerics

"""The machine in use, and how its devices are named and found."""

import os
from types import SimpleNamespace

from simgpu.naming import NAME, SLOT, split

DEFAULT_SEED = 67280421310721  # PyTorch's own, where nobody has called torch.manual_seed
state = SimpleNamespace(machine=None, seed=DEFAULT_SEED)
ranks = None  # while several ranks share the machine: what knows which device is whose
_FORKED = (
    "simulated GPUs belong to the process that configured them, and this one was forked from it; "
    "use host tensors here (in a DataLoader's workers: return them, and move batches where they "
    "arrive), or call simgpu.configure(k) here"
)
_forked: list = []  # the machine of the process that this one was forked from


def _leave_machine_behind():
    """In a forked process: its copy of the machine would have a clock of its own."""
    machine = state.machine
    if machine is not None:
        state.machine, machine.alive = None, False
        _forked[:] = [machine]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_machine_behind)


def current_machine():
    """Return the machine in use.

    Raises
    ------
    RuntimeError
        If `configure` was not called yet.
    """
    machine = state.machine
    if machine is None and _forked:
        raise RuntimeError(_FORKED)
    if machine is None:
        raise RuntimeError("there are no simulated GPUs yet; call simgpu.configure(k)")
    return machine


def machine_in_use():
    """Return what stands for the machine in use: something else after each `configure`.

    Returns
    -------
    object or None
        To be compared by ``is``; None before `configure`.

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
    """Raise an error if `machine` is not in use; `what` names the thing that belongs to it."""
    if machine.alive:
        return
    if machine in _forked:
        raise RuntimeError(_FORKED)
    if machine.set_aside:
        raise RuntimeError(
            f"{what} belongs to a simulated machine that is set aside while a `with sim.machine()` "
            "block is open; use it behind that block, or copy tensors to the host before it"
        )
    raise RuntimeError(
        f"{what} belongs to a simulated machine that a later sim.configure() (or gpus()) "
        "replaced; create it again after that call, or copy tensors to the host before it"
    )


def find_device(device=None):
    """Return the simulated device that `device` (a name, a number, or None) stands for.

    Raises
    ------
    ValueError
        If it is not a simulated GPU, or there is none of that number.
    """
    machine = current_machine()
    if device is None:
        index = machine.current_index()
    elif isinstance(device, int) and not isinstance(device, bool):
        index = device
    else:
        kind, index = split(device)
        in_cpp = kind == "meta" and index is not None  # there, sim:i is taken for meta:i
        if kind not in (NAME, SLOT) and not in_cpp:
            raise ValueError(f"{device} is not a simulated GPU; give one like 'sim:0'")
        index = machine.current_index() if index is None else index
    if ranks is not None:
        index = ranks.index_of(index)
    if not 0 <= index < len(machine.devices):
        raise ValueError(
            f"there is no sim:{index}: this machine has {len(machine.devices)} simulated GPU(s), "
            f"sim:0 to sim:{len(machine.devices) - 1}; configure({index + 1}) would make it"
        )
    return machine.devices[index]


def is_cpp_device(device) -> bool:
    """Whether a meta device of PyTorch's C++ stands for a simulated GPU."""
    return device.index is not None and device.index < device_count()


def device_count() -> int:
    """Return the number of simulated GPUs; 0 before `configure`."""
    machine = state.machine
    return 0 if machine is None else len(machine.devices)


def current_device() -> int:
    """Return the number of the device that ``"sim"`` without a number stands for."""
    machine = state.machine
    return 0 if machine is None else find_device().torch_device.index


def own_devices() -> list:
    """Return the devices of the program that asks: all, or the one of a rank among several."""
    machine = current_machine()
    return machine.devices if ranks is None else [machine.devices[ranks.own_index()]]


def refuse_in_a_rank(what: str, instead: str) -> None:
    """Raise an error while several ranks share the machine."""
    if ranks is not None:
        raise RuntimeError(
            f"{what} in a rank of sim.spawn(), where the machine is shared; {instead}"
        )


def set_device(device) -> None:
    """Make `device` the one that ``"sim"`` without a number stands for, in this thread."""
    device = find_device(device)
    device.machine.set_current_index(device.index)


def is_numeric() -> bool:
    """Whether the machine computes values (False after ``configure(..., numerics=False)``)."""
    return current_machine().numerics

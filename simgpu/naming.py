"""The names of simulated GPUs: ``sim:0`` for readers, and a device type that PyTorch knows.

PyTorch has one slot for third-party device types. *Renaming* it makes it the accelerator of the
process: then ``backward()``, side streams and pinned memory of real GPUs fail. So beside a real
accelerator the slot keeps PyTorch's own name, ``privateuseone``. Without one, or in a process that
starts with ``SIMGPU_FORCE=1`` and does not use it, the slot is renamed ``sim``, and simulated GPUs
are the accelerator. `device_name` returns ``sim:0`` in both cases.
"""

import os
from types import SimpleNamespace

import torch

NAME, SLOT, CUDA = "sim", "privateuseone", "cuda"
# PyTorch's device types of simulated GPUs; under ``simgpu run`` also ``cuda``.
TYPES = {NAME, SLOT}
# Those on which tensors are `SimTensor`s: other devices are left to PyTorch.
TYPES_OF_TENSORS = {NAME, SLOT}
spelling = SimpleNamespace(name=NAME)  # `CUDA` once a script under ``simgpu run`` has said so
# Read at import: the setting may change later, but the slot keeps its name.
_slot = SimpleNamespace(forced=os.environ.get("SIMGPU_FORCE", "") not in ("", "0"))


def leave_real_gpus_alone() -> None:
    """Do what ``SIMGPU_FORCE=1`` does, for a process that has not simulated any GPU yet."""
    _slot.forced = True


def take_slot() -> None:
    """Make simulated GPUs the accelerator of this process, which then must not use real GPUs."""
    if torch._C._get_privateuse1_backend_name() == SLOT:
        torch.utils.rename_privateuse1_backend(NAME)


def claim_slot() -> str:
    """Choose PyTorch's device type of simulated GPUs, once per process; return it.

    Raises
    ------
    RuntimeError
        If another package uses PyTorch's slot for third-party device types.
    """
    taken = torch._C._get_privateuse1_backend_name()
    if taken not in (NAME, SLOT):
        raise RuntimeError(
            f"another package uses PyTorch's slot for third-party device types, as {taken!r}; "
            "simulate GPUs in a process that does not import it"
        )
    if taken == SLOT and _may_be_the_accelerator():
        take_slot()
    return slot_type()


def _may_be_the_accelerator():
    return _slot.forced or not torch.accelerator.is_available()


def slot_type() -> str:
    """Return the name of PyTorch's slot in this process: ``sim`` or ``privateuseone``."""
    return torch._C._get_privateuse1_backend_name()


def device_type() -> str:
    """Return PyTorch's device type of simulated GPUs here: the slot's name, or ``cuda``."""
    return CUDA if spelling.name is CUDA else slot_type()


def is_accelerator() -> bool:
    """Return whether simulated GPUs are the accelerator of this process."""
    return slot_type() == NAME


def is_ordinary(device) -> bool:
    """Return whether a device is not simulated (C++ reports simulated ones as ``meta:i``)."""
    return device.type not in TYPES_OF_TENSORS and (device.type != "meta" or device.index is None)


def is_simulated(device) -> bool:
    """Return whether `device` (a `torch.device` or a name) is a simulated GPU.

    Examples
    --------
    >>> is_simulated("sim:1"), is_simulated("cpu")
    (True, False)
    """
    kind, _ = split(device)
    return kind in TYPES


def device_name(device) -> str:
    """Return the short name of a device: ``sim:0``, ``cuda:1``, ``cpu``.

    For real devices this is what PyTorch prints. A simulated GPU is ``sim:0`` even beside a real
    accelerator, where PyTorch prints ``privateuseone:0``.

    Examples
    --------
    >>> device_name(torch.device("privateuseone:1")), device_name("cpu")
    ('sim:1', 'cpu')
    """
    kind, index = split(device)
    kind = spelling.name if kind in TYPES else kind
    return kind if index is None else f"{kind}:{index}"


def split(device):
    """Return type and index (or None) of a device, even of ``"sim:1"`` before registration."""
    if isinstance(device, str):
        kind, _, index = device.partition(":")
        if kind in (NAME, SLOT) and (index.isdigit() or device == kind):
            return NAME, int(index) if index else None
    if hasattr(device, "idx"):  # a `torch.cuda.device`, which PyTorch takes for its number
        return NAME, device.idx if device.idx >= 0 else None
    device = torch.device(device)
    return device.type, device.index


def torch_device(device) -> torch.device:
    """Return the `torch.device` with a given name, such as ``"sim:1"`` or ``"cpu"``.

    Raises
    ------
    RuntimeError
        From PyTorch, if the device type does not exist.
    """
    kind, index = split(device)
    if kind in TYPES:
        kind = device_type()
    return torch.device(kind) if index is None else torch.device(kind, index)

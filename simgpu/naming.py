"""What simulated GPUs are called: ``sim:0`` for readers, and a type that PyTorch knows.

PyTorch keeps one slot for device types from outside. Whoever *renames* it makes it the
accelerator of the process: then ``backward()``, side streams and pinned memory of real GPUs fail.
So where there is a real accelerator the slot keeps PyTorch's own name, ``privateuseone``; where
there is none, or a process begins with ``D2LMINI_GPUS=sim`` and does not use it, the slot is called
``sim``, and a simulated GPU is the accelerator. `device_name` says ``sim:0`` in both cases.
"""

import os

import torch

NAME, SLOT = "sim", "privateuseone"
TYPES = {NAME, SLOT}  # PyTorch's types of devices that are simulated
# Later settings can change again, and real GPUs be used; the name of the slot stays.
_FORCED = os.environ.get("D2LMINI_GPUS", "").partition(":")[0] == NAME


def take_slot() -> None:
    """Make simulated GPUs the accelerator of this process, which must not use real ones."""
    if torch._C._get_privateuse1_backend_name() == SLOT:
        torch.utils.rename_privateuse1_backend(NAME)


def claim_slot() -> str:
    """Choose the type under which PyTorch knows simulated GPUs, once a process; return it.

    Raises
    ------
    RuntimeError
        If another package has taken PyTorch's slot for device types from outside.
    """
    taken = torch._C._get_privateuse1_backend_name()
    if taken not in (NAME, SLOT):
        raise RuntimeError(
            f"another package uses PyTorch's slot for device types, as {taken!r}; simulate GPUs in "
            "a process that does not import it"
        )
    if taken == SLOT and _may_be_the_accelerator():
        take_slot()
    return device_type()


def _may_be_the_accelerator():
    return _FORCED or not torch.accelerator.is_available()


def device_type() -> str:
    """Return PyTorch's type of simulated GPUs in this process: ``sim`` or ``privateuseone``."""
    return torch._C._get_privateuse1_backend_name()


def is_accelerator() -> bool:
    """Whether PyTorch takes simulated GPUs for the accelerator of this process."""
    return device_type() == NAME


def is_ordinary(device) -> bool:
    """Whether a device that PyTorch names is not a simulated one (C++ calls those ``meta:i``)."""
    return device.type not in TYPES and (device.type != "meta" or device.index is None)


def is_simulated(device) -> bool:
    """Say whether `device` (a `torch.device` or a name) is a simulated GPU.

    Examples
    --------
    >>> is_simulated("sim:1"), is_simulated("cpu")
    (True, False)
    """
    kind, _ = split(device)
    return kind in (NAME, SLOT)


def device_name(device) -> str:
    """Return the short name of a device: ``sim:0``, ``cuda:1``, ``cpu``.

    For real devices this is what PyTorch prints. Simulated ones have it on every machine, also
    where PyTorch prints ``privateuseone:0``, because a real accelerator is there.

    Examples
    --------
    >>> device_name(torch.device("privateuseone:1")), device_name("cpu")
    ('sim:1', 'cpu')
    """
    kind, index = split(device)
    kind = NAME if kind == SLOT else kind
    return kind if index is None else f"{kind}:{index}"


def split(device):
    """Return type and index (or None) of a device, also of ``"sim:1"`` before PyTorch knows it."""
    if isinstance(device, str):
        kind, _, index = device.partition(":")
        if kind in (NAME, SLOT) and (index.isdigit() or device == kind):
            return NAME, int(index) if index else None
    device = torch.device(device)
    return device.type, device.index


def torch_device(device) -> torch.device:
    """Return the `torch.device` that a name stands for, ``"sim:1"`` included.

    Raises
    ------
    RuntimeError
        PyTorch's own, if there is no such type of device.
    """
    kind, index = split(device)
    if kind in (NAME, SLOT):
        kind = device_type()
    return torch.device(kind) if index is None else torch.device(kind, index)

"""Streams, events, pinned memory and clocks of real and simulated GPUs, by the same names."""

import time

import torch

import simgpu as sim
from d2lmini.seconds import MEASURED, SIMULATED, Seconds
from simgpu.naming import device_name, is_simulated, torch_device

__all__ = [
    "Event",
    "Stream",
    "current_stream",
    "devices_in_use",
    "empty_pinned",
    "now",
    "synchronize",
]


def devices_in_use():
    """Return the devices that may have work pending: every simulated and every active CUDA one.

    A CUDA device counts once this process holds memory on it; asking a GPU that was never used
    would create a context there.

    Returns
    -------
    list of torch.device
    """
    devices = [torch_device(f"sim:{i}") for i in range(sim.device_count())]
    if torch.cuda.is_initialized():
        used = (i for i in range(torch.cuda.device_count()) if torch.cuda.memory_reserved(i))
        devices += [torch.device("cuda", i) for i in used]
    return devices


def synchronize(*devices):
    """Wait until all work queued on `devices` is done.

    Parameters
    ----------
    *devices : torch.device or str
        Real or simulated GPUs; a CPU needs no waiting. Without arguments: all devices in use.
    """
    for device in map(torch_device, devices or devices_in_use()):
        if is_simulated(device):
            sim.synchronize(device)
        elif device.type == "cuda":
            torch.cuda.synchronize(device)


def now(*devices):
    """Read the clock that times `devices`, in seconds from an arbitrary start.

    Simulated GPUs have a virtual clock; everything else runs on the wall clock.

    Parameters
    ----------
    *devices : torch.device or str
        Without arguments: all devices in use.

    Returns
    -------
    d2lmini.seconds.Seconds
        A float that refuses to be compared with times of the other clock.

    Raises
    ------
    ValueError
        If real and simulated GPUs are mixed; their clocks cannot be compared.
    """
    devices = devices or devices_in_use()
    simulated = [device for device in devices if is_simulated(device)]
    real = [d for d in devices if not is_simulated(d) and torch.device(d).type != "cpu"]
    if simulated and real:
        raise ValueError(
            f"{', '.join(map(device_name, devices))}: simulated and real GPUs have different "
            "clocks; time them separately, and name the devices that you time"
        )
    return Seconds(sim.now(), SIMULATED) if simulated else Seconds(time.perf_counter(), MEASURED)


def Stream(device):  # noqa: N802 - it stands in for torch.cuda.Stream
    """Create a stream on a real or simulated GPU; ``with stream:`` makes it the current one.

    Raises
    ------
    ValueError
        If `device` is not a GPU: a CPU has no streams.

    Examples
    --------
    >>> device = sim.configure(1, gpu="v100")[0]
    >>> with Stream(device):
    ...     x = torch.ones(2, device=device)
    """
    return _backend(device, "streams").Stream(device)


def Event(device, enable_timing=False):  # noqa: N802 - it stands in for torch.cuda.Event
    """Create an event for streams of a real or simulated GPU.

    Parameters
    ----------
    device : torch.device or str
        Says which kind of event; the event itself can be recorded on any device of that kind.
    enable_timing : bool, default False
        Whether ``elapsed_time`` (milliseconds) may be asked.

    Raises
    ------
    ValueError
        If `device` is not a GPU.

    Examples
    --------
    >>> device = sim.configure(1, gpu="v100")[0]
    >>> done = Event(device)
    >>> done.record(current_stream(device))
    >>> done.synchronize()
    """
    return _backend(device, "events").Event(enable_timing=enable_timing)


def current_stream(device):
    """Return the stream on which `device` queues work now.

    Raises
    ------
    ValueError
        If `device` is not a GPU.
    """
    return _backend(device, "streams").current_stream(device)


def empty_pinned(*size, device, dtype=None):
    """Create an uninitialised tensor in host memory that is pinned for copies with `device`.

    Only between pinned memory and a GPU can a copy run while the host goes on.

    Parameters
    ----------
    *size : int
        Shape.
    device : torch.device or str
        The GPU that the tensor is to be copied from or to.
    dtype : torch.dtype, optional
        By default PyTorch's default type.

    Returns
    -------
    torch.Tensor
        On the CPU.

    Raises
    ------
    ValueError
        If `device` is not a GPU.

    Examples
    --------
    >>> device = sim.configure(1, gpu="v100")[0]
    >>> empty_pinned(2, 3, device=device).shape
    torch.Size([2, 3])
    """
    if _backend(device, "pinned memory") is sim:
        return sim.empty_pinned(*size, dtype=dtype)
    return torch.empty(*size, dtype=dtype, pin_memory=True)


def _backend(device, what):
    """Return the module that manages `device`: torch.cuda or simgpu."""
    if is_simulated(device):
        return sim
    if torch.device(device).type != "cuda":
        raise ValueError(f"{device} has no {what}; use a device that gpus(k) returned")
    return torch.cuda

"""Streams, events and pinned memory, with the same interface for real and simulated GPUs."""

import torch

import simgpu as sim
from simgpu import is_simulated


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
        Determines whether the event is real or simulated; it works on any device of that kind.
    enable_timing : bool, default False
        Whether ``elapsed_time`` (milliseconds) can be called.

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
    """Return the current stream of `device`.

    Raises
    ------
    ValueError
        If `device` is not a GPU.
    """
    return _backend(device, "streams").current_stream(device)


def empty_pinned(*size, device, dtype=None):
    """Create an uninitialised tensor in pinned host memory, for copies to or from `device`.

    Only copies between pinned memory and a GPU can be asynchronous to the host.

    Parameters
    ----------
    *size : int
        Shape.
    device : torch.device or str
        The GPU that the tensor will be copied to or from.
    dtype : torch.dtype, optional
        Default: PyTorch's default dtype.

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

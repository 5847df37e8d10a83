"""Find devices, real or simulated, and use both through the same names."""

import os
import time
from collections import Counter

import torch

from d2lmini import sim
from d2lmini.cuda import usable_gpus
from d2lmini.seconds import MEASURED, SIMULATED, Seconds
from d2lmini.sim.hardware.presets import find_gpu, find_link
from d2lmini.sim.naming import device_name, is_simulated, torch_device

__all__ = [
    "Event",
    "Stream",
    "current_stream",
    "device_name",
    "devices_in_use",
    "empty_pinned",
    "gpus",
    "is_simulated",
    "now",
    "synchronize",
    "try_all_gpus",
    "try_gpu",
]

DEFAULT_GPU, DEFAULT_LINK = "v100", "pcie3"


def try_gpu(i=0):
    """Return ``cuda:i`` if it is there, else ``cpu``.

    Parameters
    ----------
    i : int, default 0
        Index of the wanted GPU.

    Returns
    -------
    torch.device

    Raises
    ------
    ValueError
        If `i` is negative.

    Examples
    --------
    >>> try_gpu(10**6)
    device(type='cpu')
    """
    if i < 0:
        raise ValueError(f"GPU index must be 0 or more, got {i}")
    return torch.device("cuda", i) if i < usable_gpus()[0] else torch.device("cpu")


def try_all_gpus():
    """Return all CUDA devices, or ``[cpu]`` if there is none.

    Returns
    -------
    list of torch.device
        Never empty.
    """
    cuda = [torch.device("cuda", i) for i in range(usable_gpus()[0])]
    return cuda or [torch.device("cpu")]


def gpus(k, gpu=None, link=None, numerics=True):
    """Return exactly `k` GPUs: real ones where there are `k`, otherwise simulated ones.

    One printed line says which, and why. The environment variable ``D2LMINI_GPUS`` forces the
    choice: ``auto`` (the default), ``cuda``, ``sim``, or ``sim:NAME`` for simulated GPUs of that
    preset. Naming a `gpu` or a `link` asks for simulated GPUs.

    Parameters
    ----------
    k : int
        Number of devices, at least 1.
    gpu : str or d2lmini.sim.GPU, optional
        Preset name or specification of the simulated GPU, by default ``"v100"``.
    link : str or d2lmini.sim.Link, optional
        Preset name or specification of the simulated link, by default ``"pcie3"``.
    numerics : bool, default True
        False simulates time and memory alone, on tensors that have shapes but no values. Matters
        only where the devices are simulated.

    Returns
    -------
    list of torch.device
        `k` different devices. `device_name` prints them; beside real GPUs, PyTorch itself calls
        simulated ones ``privateuseone``.

    Raises
    ------
    ValueError
        If `k` is not a positive integer, if ``D2LMINI_GPUS`` is unknown, or if real GPUs are
        demanded that are not there.

    Examples
    --------
    >>> gpus(2, gpu="a100", link="nvlink3")
    gpus(2): 2 simulated GPUs, a100 on nvlink3 (chosen in the call)
    [device(type='sim', index=0), device(type='sim', index=1)]
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ValueError(f"k must be a positive integer, got {k!r}; ask for at least 1 GPU")
    use_sim, preset, reason = _choose(k, gpu is not None or link is not None)
    if not use_sim:
        names = Counter(torch.cuda.get_device_name(i) for i in range(k))
        kinds = " + ".join(f"{count} x {name}" for name, count in names.items())
        print(f"gpus({k}): {kinds} ({reason})")
        return [torch.device("cuda", i) for i in range(k)]
    gpu = find_gpu(gpu or preset or DEFAULT_GPU)
    link = find_link(link or DEFAULT_LINK)
    devices = sim.configure(k, gpu=gpu, link=link, numerics=numerics)
    shapes = "" if numerics else ", shapes only"
    plural = "s" * (k > 1)
    print(f"gpus({k}): {k} simulated GPU{plural}, {gpu.name} on {link.name}{shapes} ({reason})")
    return devices


def _choose(k, wants_sim):
    """Decide between real and simulated GPUs: (simulated?, preset or None, reason)."""
    setting = os.environ.get("D2LMINI_GPUS") or "auto"
    kind, _, preset = setting.partition(":")
    if kind not in ("auto", "cuda", "sim") or (preset and kind != "sim"):
        raise ValueError(
            f"D2LMINI_GPUS={setting!r} is not known; use auto, cuda, sim, or sim:NAME "
            f"with NAME one of {', '.join(sim.GPUS)}"
        )
    if wants_sim:
        return True, preset, "chosen in the call"
    if kind == "sim":
        return True, preset, f"D2LMINI_GPUS={setting}"
    here, problem = usable_gpus()
    reason = f"{here} CUDA device{'s' * (here != 1)} here" + (f"; {problem}" if problem else "")
    if here >= k:
        return False, None, reason
    if kind == "cuda":
        raise ValueError(
            f"D2LMINI_GPUS=cuda asks for {k} real GPUs, but this machine has {here}; "
            "set D2LMINI_GPUS=auto to simulate them" + (f". {problem}" if problem else "")
        )
    return True, None, reason


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
    >>> device = gpus(1, gpu="v100")[0]
    gpus(1): 1 simulated GPU, v100 on pcie3 (chosen in the call)
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
    >>> device = gpus(1, gpu="v100")[0]
    gpus(1): 1 simulated GPU, v100 on pcie3 (chosen in the call)
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
    >>> device = gpus(1, gpu="v100")[0]
    gpus(1): 1 simulated GPU, v100 on pcie3 (chosen in the call)
    >>> empty_pinned(2, 3, device=device).shape
    torch.Size([2, 3])
    """
    if _backend(device, "pinned memory") is sim:
        return sim.empty_pinned(*size, dtype=dtype)
    return torch.empty(*size, dtype=dtype, pin_memory=True)


def _backend(device, what):
    """Return the module that manages `device`: torch.cuda or d2lmini.sim."""
    if is_simulated(device):
        return sim
    if torch.device(device).type != "cuda":
        raise ValueError(f"{device} has no {what}; use a device that gpus(k) returned")
    return torch.cuda

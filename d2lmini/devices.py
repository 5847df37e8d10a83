"""Choose devices: real GPUs where PyTorch can use them, simulated ones otherwise."""

import ctypes
import os
import re
from collections import Counter

import torch

import simgpu as sim
from simgpu import device_name, is_simulated, torch_device
from simgpu.hardware import find_gpu_and_link
from simgpu.naming import leave_real_gpus_alone

__all__ = [
    "device_name",
    "devices_in_use",
    "gpus",
    "is_simulated",
    "try_all_gpus",
    "try_gpu",
    "usable_gpus",
]

# PyTorch's messages when there is no GPU; any other message is about a GPU that is present.
NO_GPU = ("Found no NVIDIA driver", "No CUDA GPUs are available", "not compiled with CUDA")

if os.environ.get("D2LMINI_GPUS", "").partition(":")[0] == "sim":
    leave_real_gpus_alone()


def try_gpu(i=0):
    """Return ``cuda:i`` if it exists and can be used, else ``cpu``.

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
    """Return all usable CUDA devices, or ``[cpu]`` if there is none.

    Returns
    -------
    list of torch.device
        Never empty.
    """
    cuda = [torch.device("cuda", i) for i in range(usable_gpus()[0])]
    return cuda or [torch.device("cpu")]


def gpus(k, gpu=None, link=None, numerics=True, quiet=False):
    """Return exactly `k` GPUs: real ones if there are `k`, otherwise simulated ones.

    It prints one line that says which, and why. The environment variable ``D2LMINI_GPUS`` overrides
    the choice: ``auto`` (the default), ``cuda``, ``sim``, or ``sim:NAME`` for simulated GPUs of
    that preset. With `gpu` or `link`, the GPUs are simulated.

    Parameters
    ----------
    k : int
        Number of devices, at least 1.
    gpu : str, path-like or simgpu.GPU, optional
        Preset name, file or specification of the simulated GPU; by default that of
        `simgpu.set_default_gpu`, initially an A100.
    link : str or simgpu.Link, optional
        Preset name or specification of the simulated link; by default the link that machines with
        this GPU usually have.
    numerics : bool, default True
        Whether simulated tensors have values; if False, only time and memory are simulated. Has no
        effect on real GPUs.
    quiet : bool, default False
        Whether to print nothing.

    Returns
    -------
    list of torch.device
        `k` different devices. Print them with `device_name`: in a process with real GPUs, PyTorch
        itself calls simulated ones ``privateuseone``.

    Raises
    ------
    ValueError
        If `k` is not a positive integer, if ``D2LMINI_GPUS`` has an unknown value, or if it is
        ``cuda`` and there are fewer than `k` real GPUs.

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
        _say(f"gpus({k}): {kinds} ({reason})", quiet)
        return [torch.device("cuda", i) for i in range(k)]
    gpu, link = find_gpu_and_link(gpu or preset or None, link)
    devices = sim.configure(k, gpu=gpu, link=link, numerics=numerics)
    shapes = "" if numerics else ", shapes only"
    plural = "s" * (k > 1)
    kinds = f"{k} simulated GPU{plural}, {gpu.name} on {link.name}{shapes}"
    _say(f"gpus({k}): {kinds} ({reason})", quiet)
    return devices


def _say(line, quiet):
    if not quiet:
        print(line)


def _choose(k, wants_sim):
    """Choose real or simulated GPUs; return (simulated, preset or None, reason)."""
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
    """Return the devices that may have pending work: all simulated and all active CUDA devices.

    A CUDA device is active once this process holds memory on it; querying an unused one would
    create a context there.

    Returns
    -------
    list of torch.device
    """
    devices = [torch_device(f"sim:{i}") for i in range(sim.device_count())]
    if torch.cuda.is_initialized():
        used = (i for i in range(torch.cuda.device_count()) if torch.cuda.memory_reserved(i))
        devices += [torch.device("cuda", i) for i in used]
    return devices


def usable_gpus():
    """Count the GPUs that PyTorch can use, and say what is wrong with the others.

    ``torch.cuda.device_count()`` by itself also counts GPUs whose driver is too old, and GPUs for
    which PyTorch was not compiled. Like ``torch.cuda.is_available()``, this queries CUDA but does
    not initialise it.

    Returns
    -------
    count : int
        ``cuda:0`` to ``cuda:count-1`` can be used.
    problem : str or None
        Why a GPU that is present cannot be used, and the remedy; None if there is no such GPU.
    """
    if not torch.cuda.is_available():
        return 0, _why_not_available()
    count = torch.cuda.device_count()
    for index in range(count):
        capability = _capability(index)
        if capability and not _has_kernels(capability, torch.cuda.get_arch_list()):
            return index, _no_kernels(index, capability)
    return count, None


def _why_not_available():
    """Return PyTorch's reason why it cannot use a GPU; None if there is no GPU."""
    try:
        torch.cuda.init()  # fails here, and so initialises nothing
    except (RuntimeError, AssertionError) as error:
        message = " ".join(str(error).split()).rstrip(".")
        if not any(sign in message for sign in NO_GPU):
            return f"PyTorch cannot use a GPU here: {message}"
    return None


def _capability(index):
    """Return a GPU's compute capability as (major, minor); None if the driver does not report it.

    ``torch.cuda.get_device_capability`` would initialise CUDA in this process.
    """
    if torch.version.cuda is None:
        return None
    try:
        driver = ctypes.CDLL("nvcuda" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return None
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    failed = driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), index)
    for number, value in ((75, major), (76, minor)):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
        failed = failed or driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
    return None if failed else (major.value, minor.value)


def _has_kernels(capability, architectures):
    """Return whether code for one of `architectures` runs on a GPU of that compute capability.

    Machine code (``sm_80``) runs on GPUs of the same major and at least the same minor version;
    code that the driver compiles (``compute_80``) on GPUs of at least its version.
    """
    for name in architectures:
        kind, major, minor = re.match(r"(\w+)_(\d+)(\d)", name).groups()
        version = int(major), int(minor)
        if version <= capability and (kind == "compute" or version[0] == capability[0]):
            return True
    return not architectures


def _no_kernels(index, capability):
    version = "{}.{}".format(*capability)
    compiled = ", ".join(torch.cuda.get_arch_list())
    return (
        f"PyTorch {torch.__version__} cannot use cuda:{index}: that GPU has compute capability "
        f"{version}, and this PyTorch was compiled for {compiled} only; install a PyTorch for it, "
        "or name other GPUs in CUDA_VISIBLE_DEVICES"
    )

"""Find out which of the machine's GPUs PyTorch can use, and why not the others."""

import ctypes
import os
import re

import torch

# How PyTorch says that there is nothing to use; any other message is about a GPU that is there.
NO_GPU = ("Found no NVIDIA driver", "No CUDA GPUs are available", "not compiled with CUDA")


def usable_gpus():
    """Count the GPUs that PyTorch can use, and say what is wrong with the others.

    ``torch.cuda.device_count()`` by itself also counts GPUs whose driver is too old, and GPUs for
    which PyTorch was not compiled. CUDA is asked, as by ``torch.cuda.is_available()``, but not
    initialised.

    Returns
    -------
    count : int
        ``cuda:0`` to ``cuda:count-1`` can be used.
    problem : str or None
        Why a GPU that is there cannot be used, and the remedy; None if there is no such GPU.
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
    """Return what PyTorch says when it is to use a GPU; None if there is none."""
    try:
        torch.cuda.init()  # fails, here, and leaves nothing behind
    except (RuntimeError, AssertionError) as error:
        message = " ".join(str(error).split()).rstrip(".")
        if not any(sign in message for sign in NO_GPU):
            return f"PyTorch cannot use a GPU here: {message}"
    return None


def _capability(index):
    """Return a GPU's compute capability as (major, minor); None if the driver does not say.

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
    """Say whether code for one of the architectures runs on a GPU of that compute capability.

    Machine code (``sm_80``) runs on GPUs of its major version from its minor version on; code that
    the driver compiles (``compute_80``) on all from its version on.
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

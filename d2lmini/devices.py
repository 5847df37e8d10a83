"""Choose devices: real GPUs where they are, simulated ones otherwise."""

import os
from collections import Counter

import torch

import simgpu as sim
from d2lmini.cuda import usable_gpus
from simgpu.hardware import find_gpu_and_link
from simgpu.naming import device_name, is_simulated

__all__ = ["device_name", "gpus", "is_simulated", "try_all_gpus", "try_gpu"]


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


def gpus(k, gpu=None, link=None, numerics=True, quiet=False):
    """Return exactly `k` GPUs: real ones where there are `k`, otherwise simulated ones.

    One printed line says which, and why. The environment variable ``D2LMINI_GPUS`` forces the
    choice: ``auto`` (the default), ``cuda``, ``sim``, or ``sim:NAME`` for simulated GPUs of that
    preset. Naming a `gpu` or a `link` asks for simulated GPUs.

    Parameters
    ----------
    k : int
        Number of devices, at least 1.
    gpu : str or simgpu.GPU, optional
        Preset name or specification of the simulated GPU, by default an A100, or what
        `simgpu.set_default_gpu` was told.
    link : str or simgpu.Link, optional
        Preset name or specification of the simulated link, by default the one with which
        machines with this GPU usually come.
    numerics : bool, default True
        False simulates time and memory alone, on tensors that have shapes but no values. Matters
        only where the devices are simulated.
    quiet : bool, default False
        True prints no line, for a sweep whose text says what is compared.

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

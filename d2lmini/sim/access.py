"""The machine in use, and how devices are named and found."""

import torch

from d2lmini.sim.hardware import GPU, Link, find_gpu, find_link
from d2lmini.sim.machine import DEFAULT_SEED, Device, Machine, _state
from d2lmini.sim.naming import NAME, SLOT, split
from d2lmini.sim.streams import Stream

MAX_DEVICES = 128


def configure(k: int, gpu="v100", link="pcie3", numerics: bool = True) -> list[torch.device]:
    """Build a fresh machine of `k` simulated GPUs: clock at 0, trace empty.

    Tensors, streams and events of the machine before it cannot be used any more. The first call
    makes simulated GPUs known to PyTorch. Where there is no real accelerator (or none is to be
    used: ``D2LMINI_GPUS=sim``) they are the accelerator, of type ``"sim"``. Beside real GPUs,
    which this leaves alone, PyTorch calls them ``privateuseone``: use the devices that are
    returned rather than their names, and `d2lmini.device_name` to print them.

    Parameters
    ----------
    k : int
        How many GPUs, from 1 to 128 (PyTorch's device numbers end there).
    gpu : str or GPU
        Name of a preset (`d2lmini.sim.GPUS`) or a spec.
    link : str or Link
        Name of a preset (`d2lmini.sim.LINKS`) or a spec.
    numerics : bool
        False: keep shapes and times only, and compute nothing.

    Returns
    -------
    list of torch.device
        ``sim:0`` to ``sim:{k - 1}``.

    Raises
    ------
    ValueError
        If `k` is not an integer from 1 to 128, or there is no such preset.
    RuntimeError
        If another package has taken PyTorch's slot for device types from outside.

    Examples
    --------
    >>> from d2lmini import sim
    >>> sim.configure(2)
    [device(type='sim', index=0), device(type='sim', index=1)]
    """
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= MAX_DEVICES:
        raise ValueError(f"cannot simulate {k!r} GPUs; give an integer from 1 to {MAX_DEVICES}")
    from d2lmini.sim import backend

    backend.register()
    machine = Machine(k, find_gpu(gpu), find_link(link), bool(numerics))
    if _state["machine"] is not None:
        _state["machine"].alive = False
    _state["machine"] = machine
    return [device.torch_device for device in machine.devices]


def current_machine() -> Machine:
    """Return the machine in use.

    Raises
    ------
    RuntimeError
        If `configure` was not called yet.
    """
    machine = _state["machine"]
    if machine is None:
        raise RuntimeError(
            "there are no simulated GPUs yet; call d2lmini.sim.configure(k) (or d2lmini.gpus(k))"
        )
    return machine


def check_alive(machine: Machine, what: str) -> None:
    """Raise an error if `machine` was replaced; `what` names the thing that belongs to it."""
    if not machine.alive:
        raise RuntimeError(
            f"{what} belongs to a simulated machine that a later sim.configure() (or gpus()) "
            "replaced; create it again after that call, or copy tensors to the host before it"
        )


def find_device(device=None) -> Device:
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
    """Return the number of simulated GPUs; 0 before `configure`.

    Examples
    --------
    >>> from d2lmini import sim
    >>> devices = sim.configure(3)
    >>> sim.device_count()
    3
    """
    machine = _state["machine"]
    return 0 if machine is None else len(machine.devices)


def current_device() -> int:
    """Return the number of the device that ``"sim"`` without a number stands for.

    Examples
    --------
    >>> from d2lmini import sim
    >>> (device,) = sim.configure(1, gpu="v100")
    >>> sim.current_device()
    0
    """
    machine = _state["machine"]
    return 0 if machine is None else machine.current_index()


def set_device(device) -> None:
    """Make `device` the one that ``"sim"`` without a number stands for, in this thread.

    Examples
    --------
    >>> from d2lmini import sim
    >>> devices = sim.configure(2)
    >>> sim.set_device(1)
    >>> sim.current_device()
    1
    """
    device = find_device(device)
    device.machine.set_current_index(device.index)


def current_stream(device=None) -> Stream:
    """Return the stream on which work for `device` is now issued.

    Examples
    --------
    >>> from d2lmini import sim
    >>> (device,) = sim.configure(1, gpu="v100")
    >>> with sim.Stream(device) as side:
    ...     sim.current_stream(device) == side
    True
    """
    return find_device(device).current_stream()


def default_stream(device=None) -> Stream:
    """Return the stream of `device` that is there from the start; its number is 0.

    Examples
    --------
    >>> from d2lmini import sim
    >>> (device,) = sim.configure(1, gpu="v100")
    >>> sim.default_stream(device) == sim.current_stream(device)
    True
    """
    return find_device(device).default_stream


def get_device_spec(device=None) -> GPU:
    """Return the spec of the GPU that `device` simulates.

    Examples
    --------
    >>> from d2lmini import sim
    >>> (device,) = sim.configure(1, gpu="v100")
    >>> sim.get_device_spec(device).name
    'v100'
    """
    return find_device(device).machine.gpu


def get_link_spec() -> Link:
    """Return the spec of the link between the simulated GPUs and the host.

    Examples
    --------
    >>> from d2lmini import sim
    >>> (device,) = sim.configure(1, gpu="v100")
    >>> sim.get_link_spec().name
    'pcie3'
    """
    return current_machine().link


def is_numeric() -> bool:
    """Whether the machine computes values (False after ``configure(..., numerics=False)``).

    Examples
    --------
    >>> from d2lmini import sim
    >>> devices = sim.configure(1, numerics=False)
    >>> sim.is_numeric()
    False
    """
    return current_machine().numerics


def now() -> float:
    """Return the host clock of the simulated machine, in seconds.

    Examples
    --------
    >>> from d2lmini import sim
    >>> (device,) = sim.configure(1, gpu="v100")
    >>> sim.now()
    0.0
    """
    return current_machine().host


def synchronize(*devices) -> None:
    """Let the host wait until all work on `devices` (none given: on every device) is done.

    Unlike ``torch.cuda.synchronize()``, which waits for one device, no argument means all.

    Examples
    --------
    >>> from d2lmini import sim
    >>> (device,) = sim.configure(1, gpu="v100")
    >>> import torch
    >>> x = torch.ones(1000, 1000, device=device)
    >>> before = sim.now()
    >>> sim.synchronize(device)
    >>> sim.now() > before
    True
    """
    machine = current_machine()
    with machine.lock:
        found = [find_device(device) for device in devices] if devices else machine.devices
        streams = [stream for device in found for stream in device.streams]
        machine.wait_until(max(stream.end for stream in streams), marks=streams)


def reset() -> None:
    """Wait for all devices, then set the clock to 0 and forget trace and memory peaks.

    Tensors stay valid; events recorded before are worth nothing afterwards.

    Examples
    --------
    >>> from d2lmini import sim
    >>> (device,) = sim.configure(1, gpu="v100")
    >>> import torch
    >>> x = torch.ones(2, device=device)
    >>> sim.reset()
    >>> sim.now(), sim.trace()
    (0.0, [])
    """
    current_machine().reset()


def trace() -> list:
    """Return what ran since the start (or the last `reset`) as a list of `Span`.

    The spans are in the order in which the host issued them; times are in seconds.

    Examples
    --------
    >>> from d2lmini import sim
    >>> (device,) = sim.configure(1, gpu="v100")
    >>> import torch
    >>> x = torch.ones(2, device=device)
    >>> [(span.device, span.engine) for span in sim.trace()]
    [('host', 'launch'), ('sim:0', 'compute')]
    """
    machine = current_machine()
    with machine.lock:
        return machine.trace.spans()


def memory_allocated(device=None) -> int:
    """Return the bytes that tensors on `device` occupy, in blocks of 512 as on CUDA.

    Examples
    --------
    >>> from d2lmini import sim
    >>> (device,) = sim.configure(1, gpu="v100")
    >>> import torch
    >>> x = torch.ones(1000, device=device)  # 4000 bytes
    >>> sim.memory_allocated(device)
    4096
    """
    return find_device(device).memory.allocated


def max_memory_allocated(device=None) -> int:
    """Return the peak of `memory_allocated` since the start or the last reset, in bytes.

    Examples
    --------
    >>> from d2lmini import sim
    >>> (device,) = sim.configure(1, gpu="v100")
    >>> import torch
    >>> x = torch.ones(1000, device=device)
    >>> del x
    >>> sim.memory_allocated(device), sim.max_memory_allocated(device)
    (0, 4096)
    """
    return find_device(device).memory.peak


def reset_peak_memory_stats(device=None) -> None:
    """Let the peak of `device` start again from what is allocated now.

    Examples
    --------
    >>> from d2lmini import sim
    >>> (device,) = sim.configure(1, gpu="v100")
    >>> import torch
    >>> x = torch.ones(1000, device=device)
    >>> del x
    >>> sim.reset_peak_memory_stats(device)
    >>> sim.max_memory_allocated(device)
    0
    """
    memory = find_device(device).memory
    with memory.lock:
        memory.peak = memory.allocated


def seed_all(seed: int) -> None:
    """Seed every device's generator; `torch.manual_seed` calls this."""
    _state["seed"] = int(seed)
    machine = _state["machine"]
    if machine is not None:
        for device in machine.devices:
            device.generator.manual_seed(_state["seed"])


__all__ = [
    "DEFAULT_SEED",
    "configure",
    "current_device",
    "current_stream",
    "default_stream",
    "device_count",
    "get_device_spec",
    "get_link_spec",
    "is_numeric",
    "max_memory_allocated",
    "memory_allocated",
    "now",
    "reset",
    "reset_peak_memory_stats",
    "set_device",
    "synchronize",
    "trace",
]

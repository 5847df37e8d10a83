"""Functions that read or change the machine in use, under the names of `torch.cuda`."""

from simgpu.clock import current
from simgpu.clock.current import current_machine, find_device, own_devices, state
from simgpu.clock.streams import Stream
from simgpu.hardware.link import Link
from simgpu.hardware.specs import GPU


def current_stream(device=None) -> Stream:
    """Return the stream on which this thread issues work for `device`."""
    return find_device(device).current_stream()


def default_stream(device=None) -> Stream:
    """Return the default stream of `device`, which has the number 0."""
    return find_device(device).default_stream


def get_device_spec(device=None) -> GPU:
    """Return the spec of the GPU that `device` simulates."""
    return find_device(device).machine.gpu


def get_link_spec() -> Link:
    """Return the spec of the link between the simulated GPUs and the host."""
    return current_machine().link


def now() -> float:
    """Return the host clock of the simulated machine, in seconds."""
    machine = current_machine()
    for device in own_devices():
        device.sink.settle()
    return machine.host


def synchronize(*devices) -> None:
    """Make the host wait until all work on `devices` (default: on every device) is done.

    Without arguments, ``torch.cuda.synchronize()`` waits for one device; this function waits for
    all devices of the program (in a rank of `spawn`, its only one).
    """
    machine = current_machine()
    found = [find_device(device) for device in devices] if devices else own_devices()
    if current.ranks is not None:
        current.ranks.works.wait_until_scheduled(found)
    for device in found:
        device.sink.settle()
    with machine.lock:
        streams = [stream for device in found for stream in device.streams]
        machine.wait_until(max(stream.end for stream in streams), marks=streams)


def reset() -> None:
    """Wait for all devices, then set the clock to 0 and clear the trace and the memory peaks.

    Tensors stay valid; events recorded earlier lose their meaning.

    Raises
    ------
    RuntimeError
        In a rank of `spawn`, whose clock is one of several.
    """
    current.refuse_in_a_rank("sim.reset()", "subtract two values of sim.now() instead")
    current_machine().reset()


def trace() -> list:
    """Return what ran since the start (or the last `reset`) as a list of `Span`.

    The spans are in the order in which the host issued them; times are in seconds.

    Examples
    --------
    >>> import simgpu as sim
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
    >>> import simgpu as sim
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
    >>> import simgpu as sim
    >>> (device,) = sim.configure(1, gpu="v100")
    >>> import torch
    >>> x = torch.ones(1000, device=device)
    >>> del x
    >>> sim.memory_allocated(device), sim.max_memory_allocated(device)
    (0, 4096)
    """
    return find_device(device).memory.peak


def reset_peak_memory_stats(device=None) -> None:
    """Reset the peak of `device` to what is allocated now."""
    memory = find_device(device).memory
    with memory.lock:
        memory.reset_peak()


def seed_all(seed: int) -> None:
    """Seed every device's generator; `torch.manual_seed` calls this."""
    state.seed = int(seed)
    if state.machine is not None:
        for device in own_devices():
            device.generator.manual_seed(state.seed)

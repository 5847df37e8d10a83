"""Create machines of simulated GPUs: until the next one, or for a ``with`` block."""

from contextlib import contextmanager

import torch

from simgpu.backend.pytorch import register
from simgpu.backend.routing import Routing
from simgpu.clock.current import refuse_in_a_rank, state
from simgpu.clock.machine import Machine
from simgpu.hardware.default import MAX_DEVICES, find_gpu_and_link


def configure(
    k: int, gpu=None, link=None, numerics: bool = True, routing=None
) -> list[torch.device]:
    """Create a new machine of `k` simulated GPUs: clock at 0, trace empty.

    Tensors, streams and events of the previous machine become unusable. The first call registers
    simulated GPUs with PyTorch. Without a real accelerator they become the accelerator, of type
    ``"sim"``; so they do in a process that starts with ``SIMGPU_FORCE=1`` in its environment, which
    must then leave real GPUs alone. Beside real GPUs, which keep working, PyTorch calls them
    ``privateuseone``: use the returned devices rather than their names, and `simgpu.device_name` to
    print them.

    Parameters
    ----------
    k : int
        Number of GPUs, from 1 to 128 (PyTorch's highest device index is 127).
    gpu : str, path-like or GPU, optional
        Name of a preset (`simgpu.GPUS`), a file of `calibrate` or a spec; by default an A100, or
        the GPU that `set_default_gpu` has set.
    link : str or Link, optional
        Name of a preset (`simgpu.LINKS`) or a spec; by default the usual one for this GPU.
    numerics : bool
        If False, keep track of shapes and times only, and compute no values. Small tensors of
        integers and bools still have some, and what is computed from these alone. The indices of
        `torch.topk` are made up (see `routing`), also where they choose no experts: a top-5
        accuracy means nothing.
    routing : str or list of float, optional
        With ``numerics=False``, which experts tokens go to, in every layer: ``"balanced"`` (the
        default), ``"zipf:1.2"`` (expert i gets a share in proportion to 1 / (i + 1)**1.2, the first
        most), or the share of each expert, such as a measured one. If it is given, the indices of
        `argmax` and of `max` are routing, too, not only those of `topk`. Choices among another
        number of experts than have shares are balanced.

    Returns
    -------
    list of torch.device
        ``sim:0`` to ``sim:{k - 1}``.

    Raises
    ------
    ValueError
        If `k` is not an integer from 1 to 128, a preset or file does not exist, or `routing` is
        invalid, or given with values.
    RuntimeError
        If another package uses PyTorch's slot for third-party device types.

    Examples
    --------
    >>> import simgpu as sim
    >>> sim.configure(2)
    [device(type='sim', index=0), device(type='sim', index=1)]
    """
    new = build(k, *find_gpu_and_link(gpu, link), numerics, routing)
    if state.machine is not None:
        state.machine.alive = False
    state.machine = new
    return [device.torch_device for device in new.devices]


def close() -> None:
    """End the simulation: remove the machine and restore PyTorch's functions.

    While a machine exists, the simulator replaces some functions of PyTorch (`torch.Tensor.to`,
    `torch.Stream`, ...) and forwards calls that involve no simulated device. This call restores the
    originals, as does the end of the outermost ``with sim.machine()`` block if no machine was
    configured before it. `configure` can be called again. Without a machine this does nothing.

    Raises
    ------
    RuntimeError
        If called in a rank.

    Examples
    --------
    >>> import simgpu as sim
    >>> devices = sim.configure(2)
    >>> sim.close()
    >>> sim.device_count()
    0
    """
    refuse_in_a_rank("sim.close()", "call it after sim.spawn()")
    if state.machine is not None:
        state.machine.alive = False
        state.machine = None
    register.unregister()


@contextmanager
def machine(k: int, gpu=None, link=None, numerics: bool = True, routing=None):
    """Use another machine of simulated GPUs inside a ``with`` block, then the previous one again.

    Inside the block, tensors, streams and events of the previous machine cannot be used; after it
    they are unchanged, as are its clock, trace and current devices. A seed set inside the block
    (``torch.manual_seed``) does not affect machines created after it.

    Parameters
    ----------
    k, gpu, link, numerics, routing
        As for `configure`.

    Yields
    ------
    list of torch.device
        ``sim:0`` to ``sim:{k - 1}``.

    Raises
    ------
    ValueError, RuntimeError
        As `configure` does.

    Examples
    --------
    >>> import torch
    >>> import simgpu as sim
    >>> (device,) = sim.configure(1, gpu="v100")
    >>> x = torch.ones(2, device=device)
    >>> with sim.machine(2, gpu="a100") as devices:
    ...     y = torch.ones(2, device=devices[1])
    >>> (x + x).sum().item(), sim.device_count()
    (4.0, 1)
    """
    new = build(k, *find_gpu_and_link(gpu, link), numerics, routing)
    previous, seed = state.machine, state.seed
    if previous is not None:
        previous.alive, previous.set_aside = False, True
    state.machine = new
    try:
        yield [device.torch_device for device in new.devices]
    finally:
        state.machine.alive = False  # the new one, or its replacement by `configure`
        state.machine, state.seed = previous, seed
        if previous is not None:
            previous.alive, previous.set_aside = True, False
        else:
            register.unregister()


def build(k, gpu, link, numerics, routing=None) -> Machine:
    """Return a new machine of a GPU and a link, without making it the one in use."""
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= MAX_DEVICES:
        raise ValueError(f"cannot simulate {k!r} GPUs; give an integer from 1 to {MAX_DEVICES}")
    refuse_in_a_rank("a new machine", "take the device from torch.accelerator instead")
    if numerics and routing is not None:
        raise ValueError(
            f"routing={routing!r} needs numerics=False: with values, the program's router chooses"
        )
    chosen = None if numerics else Routing(routing)
    register.register()
    machine = Machine(k, gpu, link, bool(numerics))
    machine.routing = chosen
    return machine

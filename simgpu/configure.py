"""Making machines of simulated GPUs: for good, or for a block."""

from contextlib import contextmanager

import torch

from simgpu.backend.pytorch import register
from simgpu.clock.current import refuse_in_a_rank, state
from simgpu.clock.machine import Machine
from simgpu.hardware.default import find_gpu_and_link

MAX_DEVICES = 128


def configure(k: int, gpu=None, link=None, numerics: bool = True) -> list[torch.device]:
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
    gpu : str, path-like or GPU, optional
        Name of a preset (`simgpu.GPUS`), a file of `calibrate` or a spec; by default an A100, or
        what `set_default_gpu` was told.
    link : str or Link, optional
        Name of a preset (`simgpu.LINKS`) or a spec; by default the one with which machines
        with this GPU usually come.
    numerics : bool
        False: keep shapes and times only, and compute nothing.

    Returns
    -------
    list of torch.device
        ``sim:0`` to ``sim:{k - 1}``.

    Raises
    ------
    ValueError
        If `k` is not an integer from 1 to 128, or there is no such preset or file.
    RuntimeError
        If another package has taken PyTorch's slot for device types from outside.

    Examples
    --------
    >>> import simgpu as sim
    >>> sim.configure(2)
    [device(type='sim', index=0), device(type='sim', index=1)]
    """
    new = build(k, gpu, link, numerics)
    if state.machine is not None:
        state.machine.alive = False
    state.machine = new
    return [device.torch_device for device in new.devices]


def close() -> None:
    """End the simulation: there is no machine any more, and PyTorch is as it was before.

    While there is a machine, functions of ours stand in place of some of PyTorch's
    (`torch.Tensor.to`, `torch.Stream`, ...) and hand on to them whatever is not simulated. Behind
    this call, and behind the last ``with sim.machine()`` block, PyTorch's own are back. The next
    `configure` begins anew. Without a machine this does nothing.

    Raises
    ------
    RuntimeError
        If it is called in a rank.

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
def machine(k: int, gpu=None, link=None, numerics: bool = True):
    """Use another machine of simulated GPUs inside a ``with`` block, then the former one again.

    Inside the block tensors, streams and events of the former machine are set aside; behind it
    they are what they were, its clock, trace and current devices as well. A seed that is set inside
    (``torch.manual_seed``) does not reach the machines that are made behind the block.

    Parameters
    ----------
    k, gpu, link, numerics
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
    new, former, seed = build(k, gpu, link, numerics), state.machine, state.seed
    if former is not None:
        former.alive, former.set_aside = False, True
    state.machine = new
    try:
        yield [device.torch_device for device in new.devices]
    finally:
        state.machine.alive = False  # the new one, or what `configure` has put in its place
        state.machine, state.seed = former, seed
        if former is not None:
            former.alive, former.set_aside = True, False
        else:
            register.unregister()


def build(k, gpu, link, numerics) -> Machine:
    """Return a machine as `configure` makes it, and leave the one in use alone."""
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= MAX_DEVICES:
        raise ValueError(f"cannot simulate {k!r} GPUs; give an integer from 1 to {MAX_DEVICES}")
    refuse_in_a_rank("a new machine", "take the device from torch.accelerator instead")
    register.register()
    return Machine(k, *find_gpu_and_link(gpu, link), bool(numerics))

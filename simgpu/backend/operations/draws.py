"""Random operations: they draw from the device's generator, not from the host's."""

import torch

from simgpu.clock.hooks import hooks
from simgpu.naming import spelling


def _check(generator, device):
    """Refuse a generator of another device than the one that draws from it."""
    find = hooks.device_of_generator
    own = None if find is None else find(generator)
    if own is None:
        raise RuntimeError(
            f"Expected a '{spelling.name}' device type for generator but found "
            f"'{generator.device.type}'; draw on the host with it and move the result, or seed the "
            "device with torch.manual_seed"
        )
    if own is not device:
        raise RuntimeError(
            f"Expected a generator on {device.name} but found one on {own.name}; make one for each "
            "device"
        )


def set_generator(op, device, args, kwargs):
    """Set the generator argument of an operation to the device's generator."""
    position = op.generator
    given = args[position] if position < len(args) else kwargs.get("generator")
    if given is not None:
        _check(given, device)
    generator = None
    if device.machine.numerics:
        generator = device.draw() if given is None else given
    if position < len(args):
        args[position] = generator
    else:
        kwargs["generator"] = generator


def run_seeded(func, device, args, kwargs):
    """Run an operation that draws from the global generator, with the device's state in it."""
    with device.machine.lock:  # other threads must not draw from this state
        host_state = torch.get_rng_state()
        generator = device.draw()
        torch.set_rng_state(generator.get_state())
        try:
            return func(*args, **kwargs)
        finally:
            generator.set_state(torch.get_rng_state())
            torch.set_rng_state(host_state)

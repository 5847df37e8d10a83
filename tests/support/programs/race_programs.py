"""What the tests of the race detector share: a machine, and what is said about a program."""

import torch

import simgpu as sim


def races_in(program, *args):
    """Run a program; return what is said about its first race, None if there is none."""
    try:
        with sim.check_races():
            program(*args)
    except sim.RaceError as error:
        return str(error)
    return None


def configure(numerics=True, k=1):
    """Return the devices of a fresh machine, and a side stream of the first of them."""
    devices = sim.configure(k, gpu="v100", link="pcie3", numerics=numerics)
    return *devices, sim.Stream(devices[0])


def parameters(device):
    return torch.ones(4, 4, device=device, requires_grad=True)

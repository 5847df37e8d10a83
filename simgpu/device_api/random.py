"""Random numbers: each device has a generator of its own."""

from simgpu.clock import current, queries
from simgpu.device_api.devices import device_count


def get_rng_state(device=None):
    """Return the state of a device's generator."""
    return current.find_device(device).generator.get_state()


def set_rng_state(new_state, device=None) -> None:
    """Set the state of a device's generator."""
    current.find_device(device).generator.set_state(new_state)


def _devices():
    """Return the devices whose states a program may read: all, or in a rank its own."""
    return range(device_count()) if current.ranks is None else [current.current_device()]


def get_rng_state_all() -> list:
    """Return the state of every device of the program."""
    return [get_rng_state(device) for device in _devices()]


def set_rng_state_all(new_states) -> None:
    """Set the state of every device of the program."""
    for device, state in zip(_devices(), new_states, strict=False):
        set_rng_state(state, device)


def manual_seed(seed) -> None:
    """Seed the generator of the current device."""
    current.find_device().generator.manual_seed(int(seed))


def manual_seed_all(seed) -> None:
    """Seed the generators of all devices of the program."""
    queries.seed_all(seed)


def initial_seed() -> int:
    """Return the seed of the current device's generator."""
    return current.find_device().generator.initial_seed()


def seed() -> None:
    """Seed the generator of the current device with a new number, the same one in every run."""
    manual_seed(initial_seed() + 1)


def seed_all() -> None:
    """Seed all generators with a new number, the same one in every run."""
    manual_seed_all(initial_seed() + 1)

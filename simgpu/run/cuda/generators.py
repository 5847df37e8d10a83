"""``torch.Generator(device="cuda")``: to C++ a generator of the host, from which a device draws.

So C++ would let the host draw from it, too. PyTorch refuses that, and the functions that draw do so
here.
"""

import functools
import weakref

import torch

from simgpu.clock import current
from simgpu.clock.hooks import HOOKS
from simgpu.device_api import devices
from simgpu.naming import is_simulated
from simgpu.run.cuda.tensors import stand_in

_own = torch.Generator  # PyTorch's
_FUNCTIONS = (
    "bernoulli", "binomial", "multinomial", "normal", "poisson", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "randperm",
)  # fmt: skip
_METHODS = (
    "bernoulli", "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_",
    "multinomial", "normal_", "random_", "uniform_",
)  # fmt: skip
# C++ hands kernels another Python object for the same generator, so they are found by address.
_devices: dict = weakref.WeakValueDictionary()


class DeviceGenerator(_own):
    """A generator of a simulated GPU: its numbers are those of a host generator with its seed."""

    def __new__(cls, device=None):  # noqa: D102 (as `__init__`)
        return super().__new__(cls)

    def __init__(self, device=None):
        self._simulated = current.find_device(device)
        _devices[self._cdata] = self

    @property
    def device(self):
        """The simulated device."""
        return self._simulated.torch_device

    def clone_state(self):
        """Return another generator with the same state."""
        other = DeviceGenerator(self.device)
        other.set_state(self.get_state())
        return other

    def __reduce__(self):
        raise NotImplementedError(
            "a generator on a simulated GPU cannot be pickled; save its get_state()"
        )


def _device_of(generator):
    found = _devices.get(generator._cdata)
    return None if found is None else found._simulated


class _Kind(type(_own)):
    """The class `torch.Generator` while scripts run: it makes a generator for any device."""

    def __call__(cls, device="cpu"):
        return DeviceGenerator(device) if is_simulated(device) else _own(device)

    def __instancecheck__(cls, instance):
        return isinstance(instance, _own)

    def __subclasscheck__(cls, subclass):
        return issubclass(subclass, _own)


class DefaultGenerators:
    """``torch.cuda.default_generators``: the generator of each device."""

    def __len__(self):
        return devices.device_count()

    def __getitem__(self, index):
        if index >= len(self):
            raise IndexError(f"default_generators[{index}]: there are {len(self)} devices")
        return current.find_device(index).generator


def _drawing(own):
    """Refuse to let a function of the host draw from a generator of a device."""

    @functools.wraps(own)
    def draw(*args, **kwargs):
        result = own(*args, **kwargs)
        generator = kwargs.get("generator")
        if type(generator) is DeviceGenerator and result.device.type == "cpu":
            raise RuntimeError(
                "Expected a 'cpu' device type for generator but found "
                f"'{generator.device.type}'; give device={str(generator.device)!r} as well, or "
                "draw on the host with a generator of its own, torch.Generator()"
            )
        return result

    return stand_in(draw, own)


def replacements() -> dict:
    """Return the replacements."""
    generator = _Kind("Generator", (_own,), {"__module__": "torch", "__doc__": _own.__doc__})
    return {
        "torch:Generator": generator,
        **{f"torch:{name}": _drawing(getattr(torch, name)) for name in _FUNCTIONS},
        **{f"torch:Tensor.{name}": _drawing(getattr(torch.Tensor, name)) for name in _METHODS},
        "torch.cuda:default_generators": DefaultGenerators(),
        f"{HOOKS}.device_of_generator": _device_of,
    }

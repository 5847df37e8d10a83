"""`torch.Stream` and `torch.Event` for simulated GPUs: they create those of `simgpu`.

PyTorch's own classes call a backend's C++ code, which has no streams here: work would stay in the
default stream, and events could not be waited for.
"""

import torch

from simgpu.clock import current
from simgpu.clock.streams import Event, Stream
from simgpu.naming import is_simulated


def _is_for_simulated(device):
    """Whether a stream or event is for a simulated GPU; the default type is the accelerator's."""
    if device is None or isinstance(device, int):
        device = torch.accelerator.current_accelerator()
    return device is not None and is_simulated(device)


def _stream(device=None, *, priority=0):
    return Stream(device, priority)


def _event(device=None, *, enable_timing=False, blocking=False, interprocess=False):
    current.find_device(device)
    return Event(enable_timing, blocking, interprocess)


def _kind(real, simulated, make):
    """Return a class that stands for both PyTorch's class and the simulated one."""

    class Kind(type(real)):
        def __call__(cls, *args, **kwargs):
            device = args[0] if args else kwargs.get("device")
            if cls is either and "stream_id" not in kwargs and _is_for_simulated(device):
                return make(*args, **kwargs)
            return real(*args, **kwargs) if cls is either else super().__call__(*args, **kwargs)

        def __instancecheck__(cls, instance):
            if cls is either:
                return isinstance(instance, (real, simulated))
            return super().__instancecheck__(instance)

        def __subclasscheck__(cls, subclass):
            if cls is either:
                return issubclass(subclass, (real, simulated))
            return super().__subclasscheck__(subclass)

    names = {"__module__": real.__module__, "__doc__": real.__doc__, "__slots__": ()}
    either = Kind(real.__name__, (real,), names)
    return either


KINDS = {  # of torch
    "Stream": _kind(torch.Stream, Stream, _stream),
    "Event": _kind(torch.Event, Event, _event),
}

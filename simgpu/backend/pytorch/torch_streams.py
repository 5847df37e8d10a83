"""`torch.Stream` and `torch.Event` of simulated GPUs: what they make are those of `simgpu`.

PyTorch's own ask a backend's C++, which here knows no streams: work would go on in the default
stream, and no event could be waited for.
"""

import torch

from simgpu.clock import current
from simgpu.clock.streams import Event, Stream
from simgpu.naming import is_simulated


def _is_meant(device):
    """Whether a stream or an event is for a simulated GPU; without a type: the accelerator's."""
    if device is None or isinstance(device, int):
        device = torch.accelerator.current_accelerator()
    return device is not None and is_simulated(device)


def _stream(device=None, *, priority=0):
    return Stream(device, priority)


def _event(device=None, *, enable_timing=False, blocking=False, interprocess=False):
    current.find_device(device)
    return Event(enable_timing, blocking, interprocess)


def _kind(real, simulated, make):
    """Return a class that stands for one of PyTorch's, and for the simulated one."""

    class Kind(type(real)):
        def __call__(cls, *args, **kwargs):
            device = args[0] if args else kwargs.get("device")
            if cls is either and "stream_id" not in kwargs and _is_meant(device):
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
